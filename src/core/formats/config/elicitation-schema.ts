import * as z from "zod";
import { anyObject, closedObject, filledText } from "./config-fields.ts";

const answer = closedObject({
  message: filledText.optional().meta({
    description: "Text that the question contains; upper and lower case are the same.",
    defaultText: "any question",
  }),
  server: filledText.optional().meta({ description: "The server that asks.", defaultText: "any" }),
  action: z.enum(["accept", "decline", "cancel"]).meta({ description: "What the user does." }),
  content: anyObject.optional().meta({ description: "What the user fills in; only with `accept`." }),
})
  .refine(({ action, content }) => content === undefined || action === "accept", {
    error: 'must not have content, since its action is not "accept"',
  })
  .meta({
    id: "ElicitationAnswer",
    title: "Elicitation answer",
    description: "What the user answers when a server asks (elicitation).",
  });

/** Answers to what servers ask of the user. */
export const elicitationSchema = z.array(answer);

export const elicitationDescription =
  "What the user answers when a server asks (elicitation): the first that fits. Without one that fits, the user declines.";
