"""`edgewise demo tenancy`. Begin with `commands`; `play` has the acts, `people` who acts."""
