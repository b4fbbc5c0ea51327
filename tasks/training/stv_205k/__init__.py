"""STV-205k: questions of space and time, made by the builder beside this package."""
