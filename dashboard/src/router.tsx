import { createHashHistory, createRootRoute, createRoute, createRouter, Link } from "@tanstack/react-router";
import type { ReactElement } from "react";
import { PageTitle } from "./components/page-title.tsx";
import { ErrorState } from "./components/states.tsx";
import { ComparePage, compareSearch } from "./pages/compare.tsx";
import { compareTrialsSearch, CompareTrialsPage } from "./pages/compare-trials.tsx";
import { CoverageView } from "./pages/run/coverage.tsx";
import { EnvironmentView } from "./pages/run/environment.tsx";
import { findingsSearch, FindingsView } from "./pages/run/findings.tsx";
import { GradersView } from "./pages/run/graders.tsx";
import { RunLayout } from "./pages/run/layout.tsx";
import { OverviewView } from "./pages/run/overview.tsx";
import { ratesSearch } from "./pages/run/rates.tsx";
import { ruleSearch, RuleView } from "./pages/run/rule.tsx";
import { serversSearch, ServersView } from "./pages/run/servers.tsx";
import { trialsSearch, TrialsView } from "./pages/run/trials.tsx";
import { UsageView } from "./pages/run/usage.tsx";
import { RunsPage, runsSearch } from "./pages/runs.tsx";
import { TrialPage, trialSearch } from "./pages/trial.tsx";
import { Shell } from "./shell.tsx";

// The path is behind the `#`, so that the app also works in a file.
const root = createRootRoute({
  component: Shell,
  notFoundComponent: NotFound,
  errorComponent: ({ error }) => (
    <ErrorState error={error instanceof Error ? error : new Error(String(error))} />
  ),
});
const runs = createRoute({
  getParentRoute: () => root,
  path: "/",
  component: RunsPage,
  validateSearch: runsSearch,
});
const run = createRoute({ getParentRoute: () => root, path: "/runs/$run", component: RunLayout });
const runViews = [
  createRoute({ getParentRoute: () => run, path: "/", component: OverviewView, validateSearch: ratesSearch }),
  createRoute({
    getParentRoute: () => run,
    path: "/trials",
    component: TrialsView,
    validateSearch: trialsSearch,
  }),
  createRoute({
    getParentRoute: () => run,
    path: "/findings",
    component: FindingsView,
    validateSearch: findingsSearch,
  }),
  createRoute({ getParentRoute: () => run, path: "/rule", component: RuleView, validateSearch: ruleSearch }),
  createRoute({ getParentRoute: () => run, path: "/graders", component: GradersView }),
  createRoute({ getParentRoute: () => run, path: "/coverage", component: CoverageView }),
  createRoute({
    getParentRoute: () => run,
    path: "/servers",
    component: ServersView,
    validateSearch: serversSearch,
  }),
  createRoute({ getParentRoute: () => run, path: "/usage", component: UsageView }),
  createRoute({ getParentRoute: () => run, path: "/environment", component: EnvironmentView }),
] as const;
const trial = createRoute({
  getParentRoute: () => root,
  path: "/runs/$run/trials/$trial",
  component: TrialPage,
  validateSearch: trialSearch,
});
const compareTrials = createRoute({
  getParentRoute: () => root,
  path: "/compare/trials",
  component: CompareTrialsPage,
  validateSearch: compareTrialsSearch,
});

const compare = createRoute({
  getParentRoute: () => root,
  path: "/compare",
  component: ComparePage,
  validateSearch: compareSearch,
});

export const router = createRouter({
  routeTree: root.addChildren([runs, run.addChildren(runViews), trial, compare, compareTrials]),
  history: createHashHistory(),
  // A selected event is brought into view by the list that it is in.
  scrollRestoration: ({ location }) => !("event" in location.search),
});

declare module "@tanstack/react-router" {
  interface Register {
    readonly router: typeof router;
  }
}

function NotFound(): ReactElement {
  return (
    <>
      <PageTitle title="There is no such page" />
      <p>
        The address may be cut off. <Link to="/">Go to the list of runs</Link>
      </p>
    </>
  );
}
