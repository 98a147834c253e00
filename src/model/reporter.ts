/** All reporters, with what their help says. Their factories are in src/report/reporters.ts. */
export const reporterHelp = {
  console: "for people",
  json: "the result document",
  junit: "JUnit XML, for CI servers",
  markdown: "for pull requests and pages",
  github: "annotations and the job's summary, for GitHub Actions",
  html: "the dashboard with this run in one page, for CI artifacts",
  sarif: "SARIF 2.1.0, for code scanning",
} as const;

export type ReporterName = keyof typeof reporterHelp;

export function isReporterName(name: string): name is ReporterName {
  return Object.hasOwn(reporterHelp, name);
}
