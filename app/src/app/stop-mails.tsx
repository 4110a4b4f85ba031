import { useMutation } from "@tanstack/react-query";
import { useEffect, useRef } from "react";
import { Link, useSearchParams } from "react-router";
import { ErrorState, LoadingState, PageState } from "@/components/page-state";
import { SubmitButton } from "@/components/submit-button";
import { Button } from "@/components/ui/button";
import { useDocumentTitle } from "@/hooks/use-document-title";
import { textField } from "@/lib/functions";

const names: Record<string, string> = {
  digest: "the Monday digest",
  reminder: "reminders of due dates",
  mention: "mails when someone mentions you",
};

/** The link in a mail: stops such mails at once, without signing in. A press takes it back. */
export function StopMails() {
  const [search] = useSearchParams();
  const token = search.get("token") ?? "";
  const change = useMutation({ mutationFn: (wanted: boolean) => setWanted(token, wanted), retry: 1 });
  useDocumentTitle("Mail settings");

  const { mutate } = change;
  const begun = useRef(false);
  useEffect(() => {
    if (begun.current) return;
    begun.current = true;
    mutate(false);
  }, [mutate]);

  if (change.error) {
    return (
      <ErrorState
        heading="h1"
        title="Nothing was changed"
        description={change.error.message}
        retrying={change.isPending}
        onRetry={() => mutate(false)}
      />
    );
  }
  if (!change.data) return <LoadingState label="Changing your mail settings..." />;
  const { plan, kind, wanted } = change.data;
  const what = names[kind] ?? "these mails";
  return (
    <PageState
      heading="h1"
      title={wanted ? "You get these mails again" : "You get no more of these mails"}
      description={`${wanted ? "On" : "Off"}: ${what} of the plan “${plan}”.`}
      className="min-h-[calc(100dvh-8rem)] justify-center"
    >
      <div className="flex flex-wrap justify-center gap-2">
        <SubmitButton
          type="button"
          variant="secondary"
          busy={change.isPending}
          busyLabel="Saving..."
          disabled={change.isPending}
          onClick={() => mutate(!wanted)}
        >
          {wanted ? "Stop them" : "Get them again"}
        </SubmitButton>
        <Button asChild variant="ghost">
          <Link to="/account#mails">All mail settings</Link>
        </Button>
      </div>
    </PageState>
  );
}

/** Without the client: a person who follows the link needs no session, and its code would only delay the answer. */
async function setWanted(token: string, wanted: boolean) {
  const response = await fetch(`/functions/v1/stop-mails?token=${encodeURIComponent(token)}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ wanted }),
  }).catch(() => {
    throw new Error("The server could not be reached. Check your connection and try again.");
  });
  const answer: unknown = await response.json().catch(() => null);
  if (!response.ok) throw new Error(textField(answer, "error") ?? "Something went wrong. Please try again.");
  return { plan: textField(answer, "plan") ?? "", kind: textField(answer, "kind") ?? "", wanted };
}
