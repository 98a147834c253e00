import { expect, it } from "vitest";
import { detectableDifference } from "./planning.ts";

// Tasks that are needed for an effect: the table in section 3.5 of Miller's formula, computed independently.
it.each([
  [227, 5, 0.05],
  [57, 5, 0.1],
  [20, 3, 0.2],
  [10, 10, 0.2],
])("%d tasks with %d trials detect a difference of about %d", (tasks, trials, effect) => {
  const { tasksLikeThese, theseTasks } = detectableDifference(tasks, trials);
  expect(Math.abs(tasksLikeThese - effect)).toBeLessThan(effect * 0.05);
  expect(theseTasks).toBeLessThan(tasksLikeThese);
});

it("is never more than all", () => {
  expect(detectableDifference(1, 1)).toEqual({ theseTasks: 1, tasksLikeThese: 1 });
});
