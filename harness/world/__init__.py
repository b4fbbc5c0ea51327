"""`shapes`: generated images and videos of coloured shapes, with exact masks, and questions.

`scene` has the values, `families` draws scenes, `raster` draws their pixels, `questions` and `qa`
ask about them, and `shapes.make` writes benchmarks from them in their official layouts.
"""
