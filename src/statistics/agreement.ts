import { type Proportion, wilson, z95 as z } from "./rates.ts";

/** How often a judge and people said pass and fail; the first word is what people said. */
export interface Confusion {
  readonly passPass: number;
  readonly passFail: number;
  readonly failPass: number;
  readonly failFail: number;
}

/** How far a judge agrees with people, with 95 % intervals. Absent: there are no labels to tell it from. */
export interface Agreement {
  readonly agreement?: Proportion | undefined;
  /** Share of what people pass that the judge passes. */
  readonly sensitivity?: Proportion | undefined;
  /** Share of what people fail that the judge fails. */
  readonly specificity?: Proportion | undefined;
  /** Cohen's kappa: agreement beyond that of chance; 1 is perfect, 0 is chance. */
  readonly kappa?: Proportion | undefined;
}

export function agreementOf(confusion: Confusion): Agreement {
  const { passPass, passFail, failPass, failFail } = confusion;
  return {
    agreement: wilson(passPass + failFail, passPass + passFail + failPass + failFail),
    sensitivity: wilson(passPass, passPass + passFail),
    specificity: wilson(failFail, failPass + failFail),
    kappa: cohensKappa(confusion),
  };
}

/**
 * Cohen's kappa (1960) with the interval of the large-sample variance of Fleiss, Cohen and Everitt (1969). Undefined when both
 * always say the same, or there are no labels: chance then explains all. Without variance, as of a judge that always says the same
 * or is always right, the interval is not known: both of its ends are the value.
 */
export function cohensKappa({ passPass, passFail, failPass, failFail }: Confusion): Proportion | undefined {
  const total = passPass + passFail + failPass + failFail;
  if (total === 0) return undefined;
  const [a, b, c, d] = [passPass, passFail, failPass, failFail].map((count) => count / total) as [
    number,
    number,
    number,
    number,
  ];
  const people = [a + b, c + d] as const;
  const judge = [a + c, b + d] as const;
  const observed = a + d;
  const chance = people[0] * judge[0] + people[1] * judge[1];
  if (chance === 1) return undefined;
  const value = (observed - chance) / (1 - chance);
  const off = 1 - value;
  const agreeing = a * (1 - (people[0] + judge[0]) * off) ** 2 + d * (1 - (people[1] + judge[1]) * off) ** 2;
  const differing = off ** 2 * (b * (judge[0] + people[1]) ** 2 + c * (judge[1] + people[0]) ** 2);
  const variance = (agreeing + differing - (value - chance * off) ** 2) / (total * (1 - chance) ** 2);
  // Rounding leaves a little of a variance of 0.
  if (variance < 1e-12) return { value, low: value, high: value };
  const half = z * Math.sqrt(variance);
  return { value, low: Math.max(-1, value - half), high: Math.min(1, value + half) };
}

/**
 * The share that people would pass, from the share that a judge passes (Rogan and Gladen 1978), with the errors of all
 * three shares in its interval. Undefined without a trial, or for a judge that is no better than chance.
 */
export function correctedRate(
  passed: number,
  total: number,
  { passPass, passFail, failPass, failFail }: Confusion,
): Proportion | undefined {
  const [positives, negatives] = [passPass + passFail, failPass + failFail];
  if (total === 0 || positives === 0 || negatives === 0) return undefined;
  const [observed, sensitivity, specificity] = [passed / total, passPass / positives, failFail / negatives];
  const worth = sensitivity + specificity - 1;
  if (worth <= 0) return undefined;
  const exact = (observed + specificity - 1) / worth;
  const variance =
    ((observed * (1 - observed)) / total +
      exact ** 2 * ((sensitivity * (1 - sensitivity)) / positives) +
      (1 - exact) ** 2 * ((specificity * (1 - specificity)) / negatives)) /
    worth ** 2;
  const half = z * Math.sqrt(variance);
  return { value: share(exact), low: share(exact - half), high: share(exact + half) };
}

function share(value: number): number {
  return Math.min(1, Math.max(0, value));
}
