"""STV-205k: questions of space and time, as the builder beside this package makes them."""
