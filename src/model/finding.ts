import * as z from "zod";
import type { Model } from "./fields.ts";
import { severities } from "./alike-findings.ts";

const clientEffects = ["refused", "changed"] as const;

const placeSchema = z
  .strictObject({
    tool: z.string().describe("Name of the tool.").exactOptional(),
    resource: z.string().describe("URI of the resource, or template of URIs.").exactOptional(),
    prompt: z.string().describe("Name of the prompt.").exactOptional(),
    parameter: z
      .string()
      .describe("Name of the parameter of the tool or prompt, or of the variable of the template.")
      .exactOptional(),
    pointer: z.string().describe("JSON Pointer into the definition or the message.").exactOptional(),
  })
  .meta({ id: "FindingPlace", description: "Place of a finding; empty: the whole server." });

export const findingSchema = z
  .strictObject({
    code: z.string().describe("Permanent code of the rule; docs/reference/findings.md lists them all."),
    title: z.string().describe("What the rule says is wrong, without the particulars."),
    severity: z.enum(severities).describe("Only errors fail a run."),
    server: z.string().describe("Name of the server."),
    place: placeSchema,
    message: z.string().describe("What is wrong."),
    fix: z.string().describe("What to do."),
    evidence: z.array(z.int().min(1)).describe("Numbers of the trace events that show it."),
    accepted: z
      .strictObject({ reason: z.string().describe("Why."), date: z.string().describe("Since when.") })
      .describe("Why and when it was accepted, so that it is only info. Absent: it was not.")
      .exactOptional(),
    clients: z
      .record(z.string(), z.enum(clientEffects))
      .describe("What clients do with it, by their names; absent: it concerns every client.")
      .exactOptional(),
  })
  .meta({ id: "Finding", description: "A defect of a server." });

export type Severity = (typeof severities)[number];
export type FindingPlace = Readonly<z.output<typeof placeSchema>>;
/** A defect of a server. */
export type Finding = Model<typeof findingSchema>;
/** What known clients do with a definition, by their names. */
export type ClientEffects = Readonly<Record<string, (typeof clientEffects)[number]>>;

/** Errors first, then warnings, then info; inside each in the order found. */
export function bySeverity<T extends Finding>(findings: readonly T[]): readonly T[] {
  return severities.flatMap((severity) => findings.filter((finding) => finding.severity === severity));
}

/** A finding of a run, with the trial whose events show it. */
export interface RunFinding extends Finding {
  readonly trial: string;
}

interface FindingTrial {
  readonly id: string;
  readonly grades: readonly { readonly findings?: readonly Finding[] }[];
}

/** The findings of trials, errors first; what several trials found is there once, with the first of them. */
export function findingsOf(trials: readonly FindingTrial[]): readonly RunFinding[] {
  const distinct = new Map<string, RunFinding>();
  for (const { id, grades } of trials)
    for (const finding of grades.flatMap(({ findings = [] }) => findings)) {
      const { code, server, message, place } = finding;
      const { tool, resource, prompt, parameter, pointer } = place;
      const key = JSON.stringify([code, server, tool, resource, prompt, parameter, pointer, message]);
      if (!distinct.has(key)) distinct.set(key, { ...finding, trial: id });
    }
  return bySeverity([...distinct.values()]);
}
