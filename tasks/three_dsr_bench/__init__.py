"""3DSRBench: questions on 3D space, of height, location, orientation and several objects."""
