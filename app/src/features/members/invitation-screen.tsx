import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { CircleAlertIcon, UsersIcon } from "lucide-react";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { Link, useNavigate } from "react-router";
import { ErrorState } from "@/components/page-state";
import { SendAgain } from "@/components/send-again";
import { SubmitButton } from "@/components/submit-button";
import { Alert } from "@/components/ui/alert";
import { Badge } from "@/components/ui/badge";
import { Button } from "@/components/ui/button";
import { Card } from "@/components/ui/card";
import { Spinner } from "@/components/ui/spinner";
import { useDocumentTitle } from "@/hooks/use-document-title";
import { basalt } from "@/lib/basalt";
import type { Database } from "@/lib/database.types";
import { codeOf, messageOf } from "@/lib/errors";
import { invitedState } from "@/lib/invited";
import { toPlanRole } from "@/lib/plan-role";
import { toast } from "@/lib/toast";
import {
  daysLeft,
  forgetPendingInvite,
  type InvitationKey,
  invitePath,
  keepPendingInvite,
  pendingInvite,
} from "./invitation";
import { roleRights } from "./role-rights";

interface InvitationScreenProps {
  /** From the link; null where it lacks a part. */
  invitation: InvitationKey | null;
  user: { id: string; email?: string | undefined } | null;
  /** Ends this session, so that another address can be signed in with. */
  onSignOut: () => Promise<unknown>;
  /** The person is about to log in, or sign up, with this address. */
  onLogIn: (email: string) => void;
}

export function InvitationScreen({ invitation, ...props }: InvitationScreenProps) {
  useDocumentTitle("Plan Invitation");
  return (
    <div className="mx-auto grid min-h-[calc(100dvh-8rem)] max-w-md content-center px-4 py-10">
      {invitation ? (
        <Verified invitation={invitation} {...props} />
      ) : (
        <InvitationError>Invalid invitation link. The link appears to be missing required information.</InvitationError>
      )}
    </div>
  );
}

const isUuid = (text: string) => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text);

type VerifiedProps = Omit<InvitationScreenProps, "invitation"> & { invitation: InvitationKey };

function Verified(props: VerifiedProps) {
  const { invitation, user } = props;
  const { token, planId } = invitation;
  // Accepted before signing in: that was the person's word. It is taken once, whatever becomes of it.
  const [accepted] = useState(() => {
    const pending = user && pendingInvite();
    return pending?.token === token && pending.planId === planId;
  });
  // Not while it is drawn: React may throw that away and begin anew.
  useEffect(() => {
    if (user) forgetPendingInvite();
  }, [user]);
  const found = useQuery({
    queryKey: ["invitation", token, planId, user?.id],
    queryFn: async ({ signal }) => {
      if (!isUuid(token) || !isUuid(planId)) return { state: "unknown" as const };
      const { data } = await basalt.rpc("get_invitation", { token, plan: planId }).abortSignal(signal).throwOnError();
      if (data[0]) return { state: "open" as const, ...data[0] };
      // The one who used it comes back by the same link.
      const plan =
        user && (await basalt.from("plans").select("title").eq("id", planId).abortSignal(signal).maybeSingle());
      return plan?.data ? { state: "member" as const } : { state: "unknown" as const };
    },
    staleTime: 0,
  });

  if (found.isPending) {
    return (
      <div role="status" className="grid justify-items-center gap-4 text-muted-foreground">
        <Spinner className="size-7 text-primary" />
        Verifying invitation...
      </div>
    );
  }
  if (!found.data) {
    return (
      <Card>
        <ErrorState
          heading="h1"
          title="The invitation could not be verified"
          description={messageOf(found.error)}
          retrying={found.isFetching}
          onRetry={() => void found.refetch()}
        />
      </Card>
    );
  }
  switch (found.data.state) {
    case "unknown":
      return (
        <InvitationError>
          Could not find the specified plan. It may have been deleted.
          <span className="mt-2 block">
            Or the invitation was used already, or is older than 14 days: ask an owner of the plan for a new one.
          </span>
        </InvitationError>
      );
    case "member":
      return (
        <Panel icon={<UsersIcon aria-hidden />} title="You are a member already">
          <p className="mt-2 text-muted-foreground">This invitation was accepted.</p>
          <Button asChild className="mt-6 w-full">
            <Link to={`/plan/${planId}`}>Open the plan</Link>
          </Button>
        </Panel>
      );
    case "open":
      return <OpenInvitation {...props} found={found.data} acceptAtOnce={accepted} />;
  }
}

type Found = Database["public"]["Functions"]["get_invitation"]["Returns"][number];

interface OpenInvitationProps extends VerifiedProps {
  found: Found;
  acceptAtOnce: boolean;
}

function OpenInvitation(props: OpenInvitationProps) {
  const { invitation, found, acceptAtOnce, user, onSignOut, onLogIn } = props;
  const { plan_title: planTitle, role, email, inviter } = found;
  const navigate = useNavigate();
  const queryClient = useQueryClient();
  const { token, planId } = invitation;
  const path = invitePath(invitation);
  const accept = useMutation({
    mutationFn: async () => {
      const { error } = await basalt.rpc("accept_invitation", { token, plan: planId });
      // Accepted twice, or invited by two addresses: there is nothing left to do.
      if (error && codeOf(error) !== "23505") throw error;
    },
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: ["plans"] });
      toast.success("Invitation accepted", { description: "You are now a member of this strategic plan." });
      void navigate(`/plan/${planId}`, { replace: true });
    },
  });
  const [linkSent, setLinkSent] = useState(false);
  async function sendLink() {
    const { error } = await basalt.auth.signInWithOtp({
      email,
      options: { shouldCreateUser: false, emailRedirectTo: window.location.origin + path },
    });
    if (error) throw error;
    keepPendingInvite(invitation);
  }
  const mailLink = useMutation({
    mutationFn: sendLink,
    onSuccess: () => setLinkSent(true),
    onError: (error) => void toast.error("The link could not be sent", { description: messageOf(error) }),
  });

  const otherAddress = user !== null && user.email?.toLowerCase() !== email.toLowerCase();
  const { mutate: acceptNow } = accept;
  const started = useRef(false);
  useEffect(() => {
    if (!acceptAtOnce || otherAddress || started.current) return;
    started.current = true;
    acceptNow();
  }, [acceptAtOnce, otherAddress, acceptNow]);

  function start() {
    if (user) return accept.mutate();
    keepPendingInvite(invitation);
    onLogIn(email);
    // An address without an account signs up. Of a copied link it is not known whether it has one.
    const next = found.is_proof && !found.has_account ? "/register" : "/login";
    void navigate(next, {
      state: invitedState({ planTitle, inviter, email, proof: found.is_proof ? token : null, path }),
    });
  }

  const unproven = accept.isError && /confirm your e-mail address/i.test(messageOf(accept.error));
  const busy = accept.isPending || accept.isSuccess;
  return (
    <Panel icon={<UsersIcon aria-hidden />} title="Plan Invitation">
      <p className="mt-2 text-muted-foreground [overflow-wrap:anywhere]">
        {inviter ? `${inviter} has invited you` : "You have been invited"} to work on this strategic plan.
      </p>
      <dl className="mt-6 grid gap-4 rounded-md bg-muted p-4 text-start text-sm">
        <div>
          <dt className="text-muted-foreground">Plan</dt>
          <dd dir="auto" className="font-semibold text-base [overflow-wrap:anywhere]">
            {planTitle}
          </dd>
        </div>
        <div>
          <dt className="text-muted-foreground">Role</dt>
          <dd className="flex flex-wrap items-center gap-2">
            <Badge tone="primary">{toPlanRole(role)}</Badge>
            {roleRights[toPlanRole(role)].rights}
          </dd>
        </div>
        <div>
          <dt className="text-muted-foreground">Email</dt>
          <dd className="[overflow-wrap:anywhere]">{email}</dd>
        </div>
        <div>
          <dt className="text-muted-foreground">Expires</dt>
          <dd>in {daysLeft(found.expires_at)}</dd>
        </div>
      </dl>
      {otherAddress ? (
        <Alert
          role="status"
          tone="warning"
          title="This invitation is for another e-mail address"
          className="mt-4 text-start"
        >
          <p>
            You are signed in as {user.email ?? "a person without an address"}. Sign in with {email} to accept it.
          </p>
        </Alert>
      ) : unproven ? (
        <Alert role="alert" tone="warning" title="Confirm your e-mail address first" className="mt-4 text-start">
          <p>
            An invitation is for the person who reads the mails to its address. Follow a link that we send to {email},
            and the invitation is accepted.
          </p>
        </Alert>
      ) : (
        accept.isError && (
          <Alert role="alert" tone="destructive" className="mt-4 text-start">
            <p>{messageOf(accept.error)}</p>
          </Alert>
        )
      )}
      {linkSent ? (
        <Alert
          role="status"
          tone="success"
          title="Check your email"
          className="mt-4 text-start"
          action={<SendAgain send={sendLink} failed="The link could not be sent" />}
        >
          <p>The link is on its way to {email}. It confirms the address and accepts the invitation.</p>
        </Alert>
      ) : (
        <div className="mt-6 grid gap-3 sm:grid-cols-2">
          <Button variant="secondary" className="max-sm:order-last" disabled={busy} onClick={() => void navigate("/")}>
            Decline
          </Button>
          {otherAddress ? (
            <Button onClick={() => void onSignOut()}>Sign out</Button>
          ) : unproven ? (
            <SubmitButton
              type="button"
              busy={mailLink.isPending}
              busyLabel="Sending..."
              onClick={() => mailLink.mutate()}
            >
              Send me the link
            </SubmitButton>
          ) : (
            <SubmitButton type="button" busy={busy} busyLabel="Accepting..." disabled={busy} onClick={start}>
              Accept Invitation
            </SubmitButton>
          )}
        </div>
      )}
    </Panel>
  );
}

function InvitationError({ children }: { children: ReactNode }) {
  return (
    <Panel icon={<CircleAlertIcon aria-hidden />} tone="destructive" title="Invitation Error">
      <p className="mt-2 text-pretty text-muted-foreground">{children}</p>
      <Button asChild className="mt-6 w-full">
        <Link to="/">Go to Home</Link>
      </Button>
    </Panel>
  );
}

interface PanelProps {
  icon: ReactNode;
  tone?: "primary" | "destructive";
  title: string;
  children: ReactNode;
}

function Panel({ icon, tone = "primary", title, children }: PanelProps) {
  const looks =
    tone === "primary" ? "bg-primary-soft text-primary-soft-foreground" : "bg-destructive-soft text-destructive";
  return (
    <Card className="p-6 text-center sm:p-8">
      <span className={`mx-auto mb-4 grid size-12 place-items-center rounded-full ${looks} [&_svg]:size-6`}>
        {icon}
      </span>
      <h1 tabIndex={-1} className="text-heading">
        {title}
      </h1>
      {children}
    </Card>
  );
}
