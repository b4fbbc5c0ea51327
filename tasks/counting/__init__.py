"""PixMo-Count and CountBench: how many are there?"""
