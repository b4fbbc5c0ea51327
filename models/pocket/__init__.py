"""pocket: the small vision-language model that ships with the project."""
