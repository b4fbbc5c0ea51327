"""Two ways of calling one network, held against each other, and the cause of a difference."""
