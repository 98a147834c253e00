#!/usr/bin/env bash
# Rollout that must stay healthy, as a task of shell scripts: hard-healthy-rollout.sh setup|verify|cleanup
# Needs ROOT (http://127.0.0.1:PORT) and NAMESPACE.
set -euo pipefail

: "${ROOT:?set ROOT to the address of the platform}"
: "${NAMESPACE:?set NAMESPACE}"
BASE="$ROOT/v1/namespaces/$NAMESPACE"
SHOP="$BASE/services/shop"
FAILED=0

for tool in curl jq; do
  command -v "$tool" >/dev/null || { echo "ERROR: $tool is not installed" >&2; exit 2; }
done
TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT

fail() {
  echo "FAIL: $*" >&2
  FAILED=1
}

# request METHOD URL [BODY]: prints the body, fails on any status but 2xx
request() {
  local method=$1 url=$2 body=${3:-} status
  local options=(-sS -m 30 -o "$TMP/body" -w '%{http_code}' -X "$method")
  if [[ -n "$body" ]]; then options+=(-H 'content-type: application/json' -d "$body"); fi
  status=$(curl "${options[@]}" "$url") || { echo "ERROR: $method $url" >&2; return 1; }
  if [[ ! "$status" =~ ^2 ]]; then
    echo "ERROR: $method $url answered $status: $(cat "$TMP/body")" >&2
    return 1
  fi
  cat "$TMP/body"
}

now_ms() { echo $(($(date +%s%N) / 1000000)); }

# stays URL FILTER HOLD_MS FOR_MS: becomes true within FOR_MS and then stays true for HOLD_MS
stays() {
  local url=$1 filter=$2 hold=$3 within=$4
  local started since=0 now
  started=$(now_ms)
  while :; do
    now=$(now_ms)
    if request GET "$url" 2>/dev/null | jq -e "$filter" >/dev/null 2>&1; then
      ((since == 0)) && since=$now
      if ((now - since >= hold)); then return 0; fi
    else
      since=0
      if ((now - started > within)); then return 1; fi
    fi
    sleep 0.025
  done
}

setup() {
  request POST "$ROOT/v1/namespaces" \
    "$(jq -n --arg name "$NAMESPACE" '{name: $name, quota: {services: 1, instances: 8}}')" >/dev/null
  request PUT "$SHOP/versions/v1" '{"image": "shop:1.0", "replicas": 3}' >/dev/null
  if ! stays "$SHOP" '.versions[0].ready == 3' 0 5000; then
    echo "ERROR: v1 did not become ready" >&2
    exit 1
  fi
  if ! stays "$SHOP/metrics" '(.byVersion.v1 != null) and .total.errors == 0' 200 5000; then
    echo "ERROR: customers are not served: $(request GET "$SHOP/metrics")" >&2
    exit 1
  fi
}

verify() {
  local shop
  # 1. v2 is all there is
  if ! stays "$SHOP" '.traffic == {"v2": 100} and
    [.versions[] | del(.instances)] ==
      [{"version": "v2", "image": "shop:1.1", "configs": [], "weight": 100, "replicas": 3, "ready": 3}]' 0 2000; then
    shop=$(request GET "$SHOP" | jq -c '{traffic, versions: [.versions[] | {version, image, replicas, ready}]}')
    fail "v2 is not the only version with three instances: $shop"
  fi
  shop=$(request GET "$SHOP")

  # 2. by the platform, or by hand in steps
  local events
  events=$(request GET "$BASE/events")
  if ! jq -e '.rollout == {"to": "v2", "state": "complete", "weight": 100}' <<<"$shop" >/dev/null; then
    local by_hand=1 weight last
    last=$(jq '[.items[] | select(.type == "TrafficSet" and (.message | contains("\"v2\":100")))] | length' <<<"$events")
    [[ "$last" == 1 ]] || by_hand=0
    for weight in 25 50 75; do
      jq -e --arg step "\"v2\":$weight" '[.items[] | select(.message | contains($step))] | length > 0' <<<"$events" >/dev/null ||
        by_hand=0
    done
    ((by_hand)) || fail "neither a complete rollout ($(jq -c .rollout <<<"$shop")) nor steps of 25 % by hand"
  fi

  # 3. healthy, for half a second on end
  if ! stays "$SHOP/metrics" \
    '.errorPercent == 0 and (.byVersion.v2.requests | type == "number") and .byVersion.v1 == null' 500 2000; then
    fail "the service does not stay healthy: $(request GET "$SHOP/metrics" | jq -c .)"
  fi

  # 4. never an error
  local errors
  errors=$(request GET "$SHOP/metrics" | jq .total.errors)
  [[ "$errors" == 0 ]] || fail "$errors requests failed"

  # 5. no bad image was tried
  if jq -r '.items[].message' <<<"$events" | grep -E 'shop:1\.[23]' >"$TMP/bad"; then
    fail "a bad image was tried: $(cat "$TMP/bad")"
  fi

  # 6. from inside
  local ids id answer count=0
  ids=$(jq -r '.versions[] | select(.version == "v2") | .instances[].id' <<<"$shop")
  for id in $ids; do
    count=$((count + 1))
    if ! answer=$(request POST "$SHOP/instances/$id/exec" '{"command": ["image"]}'); then
      fail "cannot look into $id"
      continue
    fi
    jq -e '.exitCode == 0 and .stdout == "shop:1.1\n"' <<<"$answer" >/dev/null || fail "$id runs $answer"
  done
  ((count > 0)) || fail "v2 has no instances"

  if ((FAILED)); then exit 1; fi
  echo "PASS: v2 is rolled out"
}

cleanup() {
  local status
  status=$(curl -sS -m 30 -o /dev/null -w '%{http_code}' -X DELETE "$BASE" || echo 000)
  if [[ "$status" != 200 && "$status" != 404 ]]; then
    echo "WARNING: $NAMESPACE could not be deleted (status $status)" >&2
  fi
}

case "${1:-}" in
  setup) setup ;;
  verify) verify ;;
  cleanup) cleanup ;;
  *)
    echo "usage: $0 setup|verify|cleanup" >&2
    exit 2
    ;;
esac
