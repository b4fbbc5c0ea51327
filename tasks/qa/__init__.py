"""Questions on images and videos: the parts that every such benchmark shares.

`questions` reads records (`Fields`, `Question`), `tables` the files they stand in, `options` and
`answer_text` the responses, `videos` the media and the choice of their frames; `task` makes samples
of them, `letters` protocols.
"""
