const key = "selectedPlanId";

/** The price that a visitor chose before they had an account, kept while they make one. */
export function pendingPriceId() {
  try {
    return sessionStorage.getItem(key);
  } catch {
    return null;
  }
}

export function keepPendingPriceId(priceId: string) {
  try {
    sessionStorage.setItem(key, priceId);
  } catch {
    // Storage may be blocked: the plan is then chosen again after signing up.
  }
}

export function clearPendingPriceId() {
  try {
    sessionStorage.removeItem(key);
  } catch {
    // As above.
  }
}
