from edgewise.cli.main import main

main()
