import { z95 } from "./rates.ts";
import { normalQuantile } from "./distributions.ts";

/**
 * What is assumed of tasks before anything has run: 60 % pass, half of the variance is between tasks, and what a task's rate is on one side it mostly is on
 * the other (correlation 0.9). After Miller (2024, arXiv 2411.00640), with the values of its examples.
 */
const assumed = { rate: 0.6, between: 0.5, correlation: 0.9 };

/**
 * The smallest difference of mean rates, 0 to 1, that a comparison of two sides finds with 80 % probability at 5 %, with `tasks` tasks and `trials` trials of
 * each on each side: on these tasks, and for tasks like these.
 */
export function detectableDifference(
  tasks: number,
  trials: number,
): { readonly theseTasks: number; readonly tasksLikeThese: number } {
  const variance = assumed.rate * (1 - assumed.rate);
  const between = assumed.between * variance;
  const within = variance - between;
  // The 80 % quantile: the chance to find a difference that is there.
  const factor = z95 + normalQuantile(0.8);
  const differenceOf = (each: number): number => Math.min(1, factor * Math.sqrt(each / tasks));
  return {
    theseTasks: differenceOf((2 * within) / trials),
    tasksLikeThese: differenceOf(2 * between * (1 - assumed.correlation) + (2 * within) / trials),
  };
}
