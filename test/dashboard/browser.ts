import { existsSync } from "node:fs";
import axe from "axe-core";
import { type Browser, chromium, type Page } from "playwright-core";

const program = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find((path) =>
  existsSync(path),
);
export const hasBrowser: boolean = program !== undefined;
if (!hasBrowser) console.warn("not tried, since there is no Chromium here: the pages of the dashboard");

export async function startBrowser(): Promise<Browser> {
  return await chromium.launch({ executablePath: program ?? "", args: ["--no-sandbox"] });
}

export interface Look {
  readonly theme: "light" | "dark";
  /** In pixels. */
  readonly width: number;
}

/** A page of a dashboard, with all that went wrong in it: errors, messages of the console, requests to elsewhere. */
export interface OpenPage extends AsyncDisposable {
  readonly page: Page;
  readonly problems: readonly string[];
  /** Goes to a page of the app, and waits until it has its data. */
  readonly go: (path: string) => Promise<void>;
}

/** Opens a dashboard at an address with its token, or the file of a report. */
export async function openPage(browser: Browser, address: string, { theme, width }: Look): Promise<OpenPage> {
  const context = await browser.newContext({ colorScheme: theme, viewport: { width, height: 800 } });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const problems: string[] = [];
  const [base = ""] = address.split(/[?#]/);
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") problems.push(message.text());
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(base) && !request.url().startsWith("data:")) problems.push(request.url());
  });
  const settled = async (): Promise<void> => {
    await page.locator("main :is(h1, [role=alert], table, p)").first().waitFor();
    await page.getByText(/^Loading /).waitFor({ state: "detached" });
  };
  await page.goto(address);
  await settled();
  return {
    page,
    problems,
    async go(path: string) {
      await page.goto(`${base}#${path}`);
      await settled();
    },
    [Symbol.asyncDispose]: () => context.close(),
  };
}

/** Light and dark, a wide screen and a phone. */
const looks: readonly Look[] = [1280, 375].flatMap((width) => [
  { theme: "light", width },
  { theme: "dark", width },
]);

/** What is wrong with what is shown, in every look: what axe finds, and what is wider than the screen. */
export async function faultsOf(page: Page): Promise<readonly string[]> {
  const faults: string[] = [];
  await page.evaluate(axe.source);
  for (const { theme, width } of looks) {
    await page.emulateMedia({ colorScheme: theme });
    await page.setViewportSize({ width, height: 800 });
    const found = await page.evaluate(async () => {
      const { run } = (globalThis as unknown as { readonly axe: typeof axe }).axe;
      const { violations } = await run({ resultTypes: ["violations"] });
      return violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes[0]?.html ?? ""}`);
    });
    const excess = await page.evaluate<number>("document.documentElement.scrollWidth - innerWidth");
    if (excess > 0) found.push(`${excess} pixels too wide`);
    const { hash } = new URL(page.url());
    faults.push(...found.map((fault) => `${hash} ${theme} ${width}: ${fault}`));
  }
  return faults;
}

/** What is wrong with pages of the app. */
export async function faultsOfPages(
  { page, go, problems }: OpenPage,
  paths: readonly string[],
): Promise<readonly string[]> {
  const faults: string[] = [];
  for (const path of paths) {
    await go(path);
    faults.push(...(await faultsOf(page)));
  }
  return [...faults, ...problems];
}
