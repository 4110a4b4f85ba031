import { useQuery } from "@tanstack/react-query";
import { MonitorSmartphoneIcon } from "lucide-react";
import { Loaded } from "@/components/loaded";
import { SubmitButton } from "@/components/submit-button";
import { Badge } from "@/components/ui/badge";
import { useChange } from "@/hooks/use-change";
import { basalt } from "@/lib/basalt";
import { formatAge, formatInstant } from "@/lib/dates";
import { deviceOf } from "./device";
import { type DeviceSession, endSession, sessionsKey, sessionsQuery } from "./queries";

/** Where the person is signed in. */
export function Sessions() {
  const sessions = useQuery(sessionsQuery());
  const end = useChange({
    done: "Signed out there",
    failed: "Error signing out",
    refetches: [sessionsKey],
    change: (id: string) => endSession(id),
  });
  const endOthers = useChange({
    done: "Signed out everywhere else",
    failed: "Error signing out",
    refetches: [sessionsKey],
    change: async (_: undefined) => {
      const { error } = await basalt.auth.signOut({ scope: "others" });
      if (error) throw error;
    },
  });
  return (
    <Loaded query={sessions} loading="Loading your sessions..." failed="Your sessions could not be loaded">
      {(list) => (
        <div className="grid gap-4">
          <ul className="divide-y">
            {[...list].sort(currentFirst).map((session) => (
              <li key={session.id} className="flex flex-wrap items-center gap-x-4 gap-y-2 py-3 first:pt-0">
                <MonitorSmartphoneIcon aria-hidden className="size-5 shrink-0 text-muted-foreground" />
                <div className="min-w-0 grow [overflow-wrap:anywhere]">
                  <p className="flex flex-wrap items-center gap-2 font-medium text-sm">
                    {deviceOf(session.user_agent)}
                    {session.is_current && <Badge tone="success">This device</Badge>}
                  </p>
                  <p className="text-muted-foreground text-sm">
                    <LastUse session={session} />
                    {session.ip && `, ${session.ip}`}
                  </p>
                </div>
                {!session.is_current && (
                  <SubmitButton
                    type="button"
                    variant="secondary"
                    size="small"
                    busy={end.isPending && end.variables === session.id}
                    busyLabel="Signing out..."
                    disabled={end.isPending}
                    aria-label={`Sign out ${deviceOf(session.user_agent)}`}
                    onClick={() => end.mutate(session.id)}
                  >
                    Sign out
                  </SubmitButton>
                )}
              </li>
            ))}
          </ul>
          {list.some((session) => !session.is_current) && (
            <SubmitButton
              type="button"
              variant="secondary"
              className="justify-self-start"
              busy={endOthers.isPending}
              busyLabel="Signing out..."
              disabled={endOthers.isPending}
              onClick={() => endOthers.mutate(undefined)}
            >
              Sign out elsewhere
            </SubmitButton>
          )}
        </div>
      )}
    </Loaded>
  );
}

function LastUse({ session: { refreshed_at: refreshed, created_at: created } }: { session: DeviceSession }) {
  const instant = refreshed ?? created;
  if (!instant) return "Active";
  return (
    <>
      {refreshed ? "Active " : "Signed in "}
      <time dateTime={instant} title={formatInstant(instant)}>
        {formatAge(instant)}
      </time>
    </>
  );
}

const currentFirst = (one: DeviceSession, other: DeviceSession) => Number(other.is_current) - Number(one.is_current);
