import { shortened } from "../../core/text/visible-text.ts";
import { type ConformanceCheck, runScenario } from "../conformance-suite.ts";
import type { Prober } from "../prober.ts";

/** Longest text of the suite that is recorded. */
const mostText = 1000;

/** How many limits of a request a scenario may take; the suite's own limit of a request is a minute. */
const mostCalls = 6;

/** Runs scenarios of the official conformance suite, each with a server that was just started, through the recording gateway. */
export async function probeConformance(prober: Prober): Promise<void> {
  const { suite, scenarios = [] } = prober.check.conformance ?? {};
  if (suite === undefined) return;
  const { signal, callMs } = prober;
  // Only this probe needs it, and loading it is slow.
  const gateway = (await import("../../servers/gateway/gateway.ts")).createGateway();
  try {
    for (const scenario of scenarios) {
      const isEnded = await prober.probe(`conformance ${scenario}`, async () => {
        const host = await prober.start();
        const url = await prober.expose(host, gateway);
        const checks = await runScenario(suite, scenario, { url, ms: callMs * mostCalls, signal });
        const unfinished: ConformanceCheck = {
          id: scenario,
          description: "",
          status: "unfinished",
          sources: [],
        };
        for (const { id, description, status, message, sources } of checks ?? [unfinished])
          prober.record({
            type: "conformance.checked",
            server: host.name,
            scenario,
            check: shortened(id, mostText),
            description: shortened(description, mostText),
            status,
            ...(message === undefined ? {} : { message: shortened(message, mostText) }),
            sources,
          });
        await prober.stop(host);
        return checks !== undefined;
      });
      // The others would wait as long.
      if (isEnded !== true) return;
    }
  } finally {
    await gateway.close();
  }
}
