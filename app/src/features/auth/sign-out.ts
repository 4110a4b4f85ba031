import { basalt } from "@/lib/basalt";
import { announceSignOut } from "./deliberate-sign-out";

/** Ends the session of this browser; those of the person's other devices go on. */
export async function signOut() {
  const { error } = await basalt.auth.signOut({ scope: "local" });
  // The session is gone from this browser before the server is asked: a server that could not be
  // reached leaves someone who is signed out all the same.
  const { data } = error ? await basalt.auth.getSession() : { data: { session: null } };
  if (data.session) return error;
  announceSignOut();
  return null;
}
