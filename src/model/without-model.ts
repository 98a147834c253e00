/** What the types of agents are that act without any model. The dashboard loads it, which must not load schemas. */
export const withoutModel: Readonly<Record<string, string>> = {
  scripted: "a written plan, not a model",
  oracle: "the task's own solution, not a model",
  null: "does nothing",
};
