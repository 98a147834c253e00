import { expect, it } from "vitest";
import { loadPackage } from "./load-package.ts";

it("names the package that is not installed, and nothing else that is missing", async () => {
  const name = "@ai-sdk/not-installed";
  const wanted = { name, user: "azure/d", code: "model/no-package", beside: ["ai"] } as const;
  await expect(loadPackage(wanted, () => import(name))).rejects.toMatchObject({
    code: "model/no-package",
    message: `azure/d needs the package ${name}, which is not installed`,
    details: { hint: `Install it beside mcpvals: npm install --save-dev ${name} ai` },
  });
  const inside = loadPackage({ ...wanted, name: "@ai-sdk/azure" }, () => import(name));
  await expect(inside).rejects.not.toHaveProperty("details");
});
