/**
 * The images that can be deployed. An instance is ready `startTicks` after it was created, or never if a variable in `needs`
 * is not configured. `errorPercent` of the requests fail; with `leaksAfterTicks`, half of them fail once the first instance is
 * that old.
 */
export const images = {
  "shop:1.0": { startTicks: 2, errorPercent: 0, needs: [], about: "the stable shop" },
  "shop:1.1": { startTicks: 15, errorPercent: 0, needs: [], about: "new checkout page" },
  "shop:1.2": {
    startTicks: 4,
    errorPercent: 40,
    needs: [],
    about: "new search, built from a feature branch",
  },
  "shop:1.3": {
    startTicks: 15,
    errorPercent: 0,
    leaksAfterTicks: 12,
    needs: [],
    about: "new recommendations",
  },
  "api:2.0": { startTicks: 2, errorPercent: 0, needs: ["DATABASE_URL"], about: "REST API" },
  "api:2.1": {
    startTicks: 4,
    errorPercent: 0,
    needs: ["DATABASE_URL", "CACHE_URL"],
    about: "REST API with a cache",
  },
  "worker:1.0": { startTicks: 1, errorPercent: 0, needs: [], about: "background jobs, takes no requests" },
};
