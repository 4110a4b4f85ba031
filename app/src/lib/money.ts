const whole = new Intl.NumberFormat("en-US", { style: "currency", currency: "USD", maximumFractionDigits: 0 });

/** US dollars without cents, as prices are shown on the public pages. */
export function formatPrice(dollars: number) {
  return whole.format(dollars);
}
