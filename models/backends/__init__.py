"""Chat backends: how a vision-language network is called."""
