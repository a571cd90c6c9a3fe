module edgewise.dev/engine/init

go 1.24
