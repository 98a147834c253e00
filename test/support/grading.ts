import type { JsonObject } from "../../src/base/json.ts";
import type { Task } from "../../src/model/task.ts";
import type { GraderResult, KindContext } from "../../src/graders/grader.ts";
import { graderKinds } from "../../src/graders/kinds.ts";
import type { EventOf, WorkspaceFile } from "../../src/model/event.ts";
import { errorResult, gradeContext, textResult, TrialEvents, workflowTask } from "./trial-events.ts";

/** A trial of an agent, with servers `k8s` (tools list, get, delete) and `docs`; its agent phase is what `play` adds. */
export class AgentTrial extends TrialEvents {
  /** Number of the event that began the agent's phase. */
  readonly started: number;

  constructor(play: (trial: AgentTrial) => void = () => undefined) {
    super();
    this.server("k8s", [{ name: "list" }, { name: "get" }, { name: "delete" }]).server("docs");
    this.started = this.emit({ type: "phase.started", phase: "agent" });
    this.turn("Do it.", () => play(this));
    this.emit({ type: "phase.finished", phase: "agent", durationMs: 1200 });
  }

  /** A call of a tool of `k8s` that succeeds; its number. */
  use(tool: string, args: JsonObject = {}, text = "x"): number {
    return this.call(tool, args, textResult(text)).request;
  }

  /** A call of a tool of `k8s` that fails; its number. */
  fail(tool: string, args: JsonObject = {}, text = "no such thing"): number {
    return this.call(tool, args, errorResult(text)).request;
  }

  /** The agent reports a use of a tool of its own. */
  report(name: string, rest: Partial<EventOf<"agent.tool">> = {}): number {
    const callId = `${name}-${this.started}`;
    return this.emit({
      type: "agent.tool",
      turn: 0,
      callId,
      name,
      source: "builtin",
      status: "completed",
      ...rest,
    });
  }
}

/**
 * A trial that left files in its workspace: by the paths and globs that graders name, the text of the file, or what was found. Its
 * agent does what `play` adds.
 */
export function trialThatLeft(
  found: Readonly<Record<string, string | readonly WorkspaceFile[]>>,
  play: (trial: AgentTrial) => void = (trial) => trial.say("Done."),
): AgentTrial {
  const trial = new AgentTrial(play);
  trial.emit({ type: "phase.started", phase: "verify" });
  for (const [name, content] of Object.entries(found))
    trial.emit({
      type: "workspace.files",
      name,
      files: typeof content === "string" ? [workspaceFile(name, content)] : content,
    });
  return trial;
}

/** A file with a text; its hash is the text itself. */
export function workspaceFile(path: string, text: string): WorkspaceFile {
  return { path, kind: "file", size: text.length, sha256: text, text };
}

/** Grades a trial by a type of grader. Throws for settings that its schema refuses, with their issues. */
export async function gradeBy(
  type: string,
  settings: JsonObject,
  trial: TrialEvents,
  { task = workflowTask(), ...context }: Partial<KindContext> & { readonly task?: Task } = {},
): Promise<GraderResult> {
  const kind = graderKinds[type];
  if (kind === undefined) throw new Error(`no grader has the type ${type}`);
  const config = kind.config.parse(settings);
  return kind.grade(config, trial.trajectory(task), { ...gradeContext(), dir: "/", ...context });
}

/** What is wrong with settings; none: they are valid. */
export function settingIssues(type: string, settings: JsonObject): readonly string[] {
  const parsed = graderKinds[type]?.config.safeParse(settings);
  return parsed?.success === false ? parsed.error.issues.map(({ message }) => message) : [];
}
