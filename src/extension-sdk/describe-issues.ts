import type * as z from "zod";
import { formatKeyPath } from "../core/formats/key-path.ts";

/** What is wrong with a value, each with the place where it is; values are not repeated. */
export function describeIssues(issues: readonly z.core.$ZodIssue[]): string {
  return issues.map(describe).join("; ");
}

function describe(issue: z.core.$ZodIssue): string {
  const path = issue.path.map((key) => (typeof key === "symbol" ? key.toString() : key));
  const message = issue.code === "invalid_union" ? unionMessage(issue) : issue.message;
  return path.length === 0 ? message : `${formatKeyPath(path)}: ${message}`;
}

function unionMessage({ errors, message }: z.core.$ZodIssueInvalidUnion): string {
  const branches = errors.map((branch) => describeIssues(branch)).filter((text) => text !== "");
  return branches.length === 0 ? message : `none of the ways to write it fits (${branches.join(" | ")})`;
}
