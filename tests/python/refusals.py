"""What the tests of mistakes have in common."""
import weft


def refused(test, pattern, call):
    """The call raises UsageError with a sentence of one line in which the pattern is found, as a ValueError, too. Returns the exception."""
    with test.assertRaisesRegex(weft.UsageError, pattern) as caught:
        call()
    words = str(caught.exception)
    test.assertEqual((caught.exception.kind, caught.exception.exit_code), ("usage", 42))
    test.assertIsInstance(caught.exception, ValueError)
    test.assertTrue(words.startswith("weft: "), words)
    test.assertNotIn("\n", words)
    return caught.exception
