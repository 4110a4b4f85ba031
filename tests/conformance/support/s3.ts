import { S3Client, S3ServiceException } from "@aws-sdk/client-s3";
import { anonKey, url } from "./environment";

export const endpoint = `${url}/storage/v1/s3`;

/** The key pair of `project/basalt.toml`. */
export const pair = { accessKeyId: "conformance", secretAccessKey: "a secret of the conformance tests alone" };

interface Credentials {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken?: string;
}

/** AWS's own client with its usual settings. */
export function s3(credentials: Credentials = pair, region = "us-east-1"): S3Client {
  return new S3Client({ endpoint, region, forcePathStyle: true, credentials, maxAttempts: 1 });
}

/** A user, identified by their access token. */
export function s3As(token: string): S3Client {
  return s3({ accessKeyId: "local", secretAccessKey: anonKey, sessionToken: token });
}

/** The error response: `[status, code, message]`. */
export async function refusal(response: Promise<unknown>): Promise<[number | undefined, string, string]> {
  try {
    await response;
  } catch (error) {
    if (error instanceof S3ServiceException) {
      return [error.$metadata.httpStatusCode, error.name, error.message];
    }
    throw error;
  }
  throw new Error("was accepted");
}

/** Bytes that are equal in each run and differ at each position. */
export function bytes(length: number): Uint8Array {
  const all = new Uint8Array(length);
  let state = 0x2545f491;
  for (let index = 0; index < length; index++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    all[index] = state >>> 24;
  }
  return all;
}
