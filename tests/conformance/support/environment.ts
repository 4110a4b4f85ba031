/** The server under test, as described by `cargo xtask conformance`. */
function required(name: string): string {
  const value = process.env[name];
  if (!value) {
    throw new Error(`${name} is not set; run \`cargo xtask conformance\`, which starts a server and sets it`);
  }
  return value;
}

export const url = required("BASALT_URL").replace(/\/$/, "");
/** Legacy JWT keys. */
export const anonKey = required("BASALT_ANON_KEY");
export const serviceKey = required("BASALT_SERVICE_KEY");
/** Opaque keys. */
export const publishableKey = required("BASALT_PUBLISHABLE_KEY");
export const secretKey = required("BASALT_SECRET_KEY");

/** The server binary, for tests that run their own server. */
export const program = required("BASALT_PROGRAM");

/** A second server, which requires confirmed email addresses. */
export const confirming = {
  url: required("BASALT_CONFIRMING_URL").replace(/\/$/, ""),
  anonKey: required("BASALT_CONFIRMING_ANON_KEY"),
  serviceKey: required("BASALT_CONFIRMING_SERVICE_KEY"),
};
