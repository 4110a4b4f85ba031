import { basalt } from "@/lib/basalt";

/** What a function of the server refused with: a sentence for the person. */
export class FunctionError extends Error {
  override name = "FunctionError";
  /** As the server's rights have it in other calls: "403". */
  code: string;
  /** What it is about, where the server says so: `api_key`, say. */
  subject: string | null;
  constructor(message: string, status: number, subject: string | null, options?: ErrorOptions) {
    super(message, options);
    this.code = String(status);
    this.subject = subject;
  }
}

/** Calls a function as the signed-in person. Rejects with the sentence that it gave, else with what the caller says. */
export async function invokeFunction(
  name: string,
  body: object,
  { failed, headers = {} }: { failed: string; headers?: Record<string, string> },
): Promise<unknown> {
  const { data, error } = await basalt.functions.invoke<unknown>(name, { body, headers });
  if (!error) return data;
  const response: unknown = error && typeof error === "object" && "context" in error ? error.context : null;
  // The server was not reached: the caller's words would hide it.
  if (!(response instanceof Response)) throw error;
  const answer: unknown = await response.json().catch(() => null);
  throw new FunctionError(textField(answer, "error") ?? failed, response.status, textField(answer, "code"), {
    cause: error,
  });
}

export function textField(answer: unknown, name: string): string | null {
  if (!answer || typeof answer !== "object" || !(name in answer)) return null;
  const value = (answer as Record<string, unknown>)[name];
  return typeof value === "string" && value !== "" ? value : null;
}
