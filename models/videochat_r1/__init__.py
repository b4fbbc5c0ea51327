"""VideoChat-R1: questions about videos, with the times that an answer rests on."""
