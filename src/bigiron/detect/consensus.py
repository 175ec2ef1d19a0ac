"""How sure it is that nearly all of a fleet agree, from how many of those asked do."""

from math import exp, lgamma, log, log1p


def share_above(agreeing: int, total: int, share: float) -> float:
    """P(true share > ``share``) after ``agreeing`` of ``total``, Jeffreys' prior (Beta)."""
    return 1.0 - _beta_cdf(share, agreeing + 0.5, total - agreeing + 0.5)


def _beta_cdf(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function, by its continued fraction (Lentz)."""
    if x > (a + 1) / (a + b + 2):
        return 1.0 - _beta_cdf(1 - x, b, a)
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x)) / a
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1)
    d = 1.0 / d if abs(d) > 1e-300 else 1e300
    result = d
    for m in range(1, 200):
        for top in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + top * d
            d = 1.0 / (d if abs(d) > 1e-300 else 1e-300)
            c = 1.0 + top / c
            c = c if abs(c) > 1e-300 else 1e-300
            result *= c * d
        if abs(c * d - 1.0) < 1e-12:
            break
    return front * result
