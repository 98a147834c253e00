import { pathToFileURL } from "node:url";
import type { ElicitationAnswer, JsonObject } from "../core/formats/model.ts";
import type { ClientSide } from "../servers/client/session.ts";
import type { ClientSideContext } from "./driver.ts";

/**
 * What every agent in this process answers: the task's own answers to what servers ask the user, if it has any, and the
 * workspace as the only root, if there is one. What is not there is not declared, so that servers behave as they do with
 * a client that cannot be asked.
 */
export function writtenAnswers({ elicitation, workspace }: ClientSideContext): ClientSide {
  return {
    ...(elicitation.length === 0 ? {} : { elicitation: answersOf(elicitation) }),
    ...(workspace === "" ? {} : { roots: [{ uri: pathToFileURL(workspace).href, name: "workspace" }] }),
  };
}

/** Answers a question with the first of the answers that fits it; one that none fits is declined. */
export function answersOf(answers: readonly ElicitationAnswer[]): NonNullable<ClientSide["elicitation"]> {
  return (params, { server }) => {
    const answer = answers.find((each) => fits(each, textOf(params), server));
    if (answer === undefined) return { action: "decline" };
    const { action, content = {} } = answer;
    return action === "accept" ? { action, content } : { action };
  };
}

function fits(answer: ElicitationAnswer, question: string, server: string): boolean {
  if (answer.server !== undefined && answer.server !== server) return false;
  return answer.message === undefined || question.includes(answer.message.toLowerCase());
}

function textOf({ message }: JsonObject): string {
  return typeof message === "string" ? message.toLowerCase() : "";
}
