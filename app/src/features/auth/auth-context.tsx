import type { User } from "@supabase/supabase-js";
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { createContext, type ReactNode, use, useEffect, useMemo, useRef, useState } from "react";
import { sessionInAddress, sessionStoredAtStart } from "@/lib/session-storage";
import { watchSignOut } from "./deliberate-sign-out";
import { adminQuery, isSubscribed, type Subscription, subscriptionQuery } from "./subscription";

export interface Auth {
  user: User | null;
  /** Has given the password, but not yet the code of the second factor. */
  codeUser: User | null;
  subscription: Subscription | null;
  isAdmin: boolean;
  /** Until the stored session has been read: neither signed in nor out. */
  loading: boolean;
  /** Signed in, known to have no active subscription, and no administrator. */
  shouldPromptForSubscription: boolean;
  /** Whose session ended while they were at work, until they sign in again or leave. */
  lapsedUser: User | null;
  /** A session was stored here, and was no longer good when the page opened. */
  cameTooLate: boolean;
}

interface Session {
  loading: boolean;
  user: User | null;
  codeUser: User | null;
  lapsedUser: User | null;
  cameTooLate: boolean;
}

const nobody: Session = { loading: false, user: null, codeUser: null, lapsedUser: null, cameTooLate: false };

export const visitor: Auth = {
  user: null,
  codeUser: null,
  subscription: null,
  isAdmin: false,
  loading: false,
  shouldPromptForSubscription: false,
  lapsedUser: null,
  cameTooLate: false,
};

export const AuthContext = createContext<Auth | null>(null);

interface AuthProviderProps {
  /** The screen does without the client: where no session can be, it is not even loaded. */
  optional: boolean;
  children: ReactNode;
}

export function AuthProvider({ optional, children }: AuthProviderProps) {
  const queryClient = useQueryClient();
  const [session, setSession] = useState<Session>({ ...nobody, loading: true });
  const [failure, setFailure] = useState<Error | null>(null);
  const lastUser = useRef<User | null>(null);
  const wasSignedIn = useRef(false);
  // Where no session can be, nobody needs the client to know that this is a visitor.
  // Once it was needed it stays: a person who signed in and went back to the landing page is still signed in.
  const [needed, setNeeded] = useState(!optional || sessionStoredAtStart || sessionInAddress);
  if (!needed && !optional) setNeeded(true);

  useEffect(() => {
    if (!needed) return;
    let unsubscribe: (() => void) | null = null;
    let unmounted = false;

    async function watchSession() {
      const [{ basalt }, { lacksSecondFactor }] = await Promise.all([
        import("@/lib/basalt"),
        import("./second-factor"),
      ]);
      if (unmounted) return;
      // Synchronous: awaiting the client in here can deadlock it.
      const { data } = basalt.auth.onAuthStateChange((_event, current) => {
        const isHalfway = current !== null && lacksSecondFactor(current);
        const user = isHalfway ? null : (current?.user ?? null);
        const codeUser = isHalfway ? current.user : null;
        if (codeUser && codeUser.id !== lastUser.current?.id) lastUser.current = null;
        const before = lastUser.current;
        if (user && before && before.id !== user.id) {
          // What the last person could see is not for the next one on this machine.
          queryClient.clear();
        }
        if (user) {
          lastUser.current = user;
          wasSignedIn.current = true;
        }
        setSession({
          loading: false,
          user,
          codeUser,
          // What they were typing stays before them, behind a question for the password.
          lapsedUser: user ? null : before,
          cameTooLate: sessionStoredAtStart && !wasSignedIn.current,
        });
      });
      const unwatch = watchSignOut(() => {
        lastUser.current = null;
        queryClient.clear();
        setSession(nobody);
      });
      unsubscribe = () => {
        data.subscription.unsubscribe();
        unwatch();
      };
    }

    watchSession().catch((error: Error) => setFailure(error));
    return () => {
      unmounted = true;
      unsubscribe?.();
    };
  }, [needed, queryClient]);

  const { loading, user, codeUser, lapsedUser, cameTooLate } = session;
  const userId = user?.id ?? "";
  // A failed check means: no administrator, no subscription. It is only logged.
  const admin = useQuery({ ...adminQuery(userId), enabled: user !== null });
  const subscriptions = useQuery({ ...subscriptionQuery(userId), enabled: user !== null });
  const isAdmin = user !== null && admin.data === true;
  const subscription = user === null ? null : (subscriptions.data ?? null);
  const shouldPromptForSubscription =
    user !== null && admin.data === false && subscriptions.data !== undefined && !isSubscribed(subscription);

  const auth = useMemo<Auth>(
    () =>
      needed
        ? { loading, user, codeUser, lapsedUser, cameTooLate, isAdmin, subscription, shouldPromptForSubscription }
        : visitor,
    [needed, loading, user, codeUser, lapsedUser, cameTooLate, isAdmin, subscription, shouldPromptForSubscription],
  );

  // The client's code could not be fetched: the route's error screen offers a reload.
  if (failure) throw failure;
  return <AuthContext value={auth}>{children}</AuthContext>;
}

export function useAuth(): Auth {
  const auth = use(AuthContext);
  if (!auth) throw new Error("useAuth must be used within an AuthProvider");
  return auth;
}
