/**
 * The logarithm of the gamma function for arguments above 0; the relative error is below 1e-14 (Lanczos 1964, g = 7, coefficients of
 * Godfrey 2001).
 */
export function logGamma(x: number): number {
  if (x < 0.5) return Math.log(Math.PI / Math.sin(Math.PI * x)) - logGamma(1 - x);
  const coefficients = [
    676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905,
    -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7,
  ];
  const sum = coefficients.reduce((total, each, index) => total + each / (x + index), 0.99999999999980993);
  const base = x + 6.5;
  return 0.5 * Math.log(2 * Math.PI) + (x - 0.5) * Math.log(base) - base + Math.log(sum);
}

/** The probability that a standard normal value is at most `z`. */
export function normalCdf(z: number): number {
  const half = 0.5 * upperGammaOfHalf(z ** 2 / 2);
  return z < 0 ? half : 1 - half;
}

/** The regularized upper incomplete gamma function Q(1/2, x), which is erfc(√x) (Press et al., Numerical Recipes, 6.2). */
function upperGammaOfHalf(x: number): number {
  const a = 0.5;
  const front = Math.exp(-x + a * Math.log(x) - logGamma(a));
  if (x === 0) return 1;
  if (x < a + 1) {
    let term = 1 / a;
    let sum = term;
    for (let n = 1; Math.abs(term) > sum * 1e-17; n += 1) sum += term *= x / (a + n);
    return 1 - sum * front;
  }
  return (
    front *
    continuedFraction(
      (n) => -n * (n - a),
      (n) => x + 1 - a + 2 * n,
    )
  );
}

/** 1 / (b0 + a1 / (b1 + a2 / (b2 + …))), by the method of Lentz. */
function continuedFraction(a: (n: number) => number, b: (n: number) => number): number {
  const tiny = 1e-300;
  let d = 1 / b(0);
  let c = 1 / tiny;
  let value = d;
  for (let n = 1; n < 10_000; n += 1) {
    const [an, bn] = [a(n), b(n)];
    d = an * d + bn;
    d = 1 / (Math.abs(d) < tiny ? tiny : d);
    c = bn + an / c;
    if (Math.abs(c) < tiny) c = tiny;
    value *= d * c;
    if (Math.abs(d * c - 1) < 1e-16) break;
  }
  return value;
}

/** The regularized incomplete beta function I(x; a, b) (Press et al., Numerical Recipes, 6.4). */
export function incompleteBeta(x: number, a: number, b: number): number {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incompleteBeta(1 - x, b, a);
  const front = Math.exp(logGamma(a + b) - logGamma(a) - logGamma(b) + a * Math.log(x) + b * Math.log1p(-x));
  const term = (n: number): number => {
    const m = Math.floor(n / 2);
    return n % 2 === 0
      ? (m * (b - m) * x) / ((a + n - 1) * (a + n))
      : (-(a + m) * (a + b + m) * x) / ((a + n - 1) * (a + n));
  };
  return (front / a) * continuedFraction(term, () => 1);
}

/** The probability that a value of Student's distribution is at most `t`. */
export function studentCdf(t: number, degrees: number): number {
  const tail = incompleteBeta(degrees / (degrees + t ** 2), degrees / 2, 0.5) / 2;
  return t < 0 ? tail : 1 - tail;
}

/** The value that one of Student's distribution is at most with probability `p`, for 0.5 <= p < 1. */
export function studentQuantile(p: number, degrees: number): number {
  return solve((t) => studentCdf(t, degrees), p, 0, 1e6);
}

/** Where an increasing function has a value, by halving the interval until it cannot be halved. */
export function solve(f: (x: number) => number, value: number, low: number, high: number): number {
  let [from, to] = [low, high];
  for (;;) {
    const middle = (from + to) / 2;
    if (middle <= from || middle >= to) return middle;
    if (f(middle) < value) from = middle;
    else to = middle;
  }
}
