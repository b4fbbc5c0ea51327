def test_it_agrees_with_a_plain_computation_of_the_same(check, modules):
    assert list(check(modules)) == []
