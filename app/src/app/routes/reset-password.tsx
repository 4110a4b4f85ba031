import { CircleAlertIcon, CircleCheckIcon } from "lucide-react";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { Link, Navigate, useNavigate } from "react-router";
import { PageHeading } from "@/components/page-heading";
import { LoadingState } from "@/components/page-state";
import { Button } from "@/components/ui/button";
import { Card } from "@/components/ui/card";
import { useAuth } from "@/features/auth/auth-context";
import { CodeScreen } from "@/features/auth/code-screen";
import { invalidResetLink } from "@/features/auth/messages";
import { ResetPasswordForm } from "@/features/auth/reset-password-form";
import { cn } from "@/lib/cn";
import { mailLink } from "@/lib/mail-link";

const secondsUntilLogin = 3;

/** Where the link of a reset mail leads. It signs its person in, who is not sent to the dashboard for that. */
export function Component() {
  const { loading, user, codeUser } = useAuth();
  const [done, setDone] = useState(false);

  if (done) return <Done />;
  // The server changes a password only in a session that has used the second factor.
  if (codeUser) return <CodeScreen user={codeUser} />;
  if (mailLink.accessToken) {
    return (
      <>
        <PageHeading
          title={mailLink.type === "invite" ? "Choose a password" : "Choose a new password"}
          subtitle="You will use it from now on to log in."
        />
        <Card className="p-5 sm:p-7">
          <ResetPasswordForm userId={mailLink.userId} onDone={() => setDone(true)} />
        </Card>
      </>
    );
  }
  if (loading) return <LoadingState label="Checking your session..." />;
  if (user) return <Navigate to="/dashboard" replace />;
  return (
    <>
      <PageHeading title="Reset your password" />
      <Outcome tone="bad" text={invalidResetLink}>
        <Button asChild className="w-full">
          <Link to="/forgot-password">Request a new reset link</Link>
        </Button>
      </Outcome>
    </>
  );
}

function Done() {
  const navigate = useNavigate();
  const screen = useRef<HTMLDivElement>(null);

  useEffect(() => {
    screen.current?.querySelector("h1")?.focus({ preventScroll: true });
    const timer = setTimeout(() => void navigate("/login", { replace: true }), secondsUntilLogin * 1000);
    return () => clearTimeout(timer);
  }, [navigate]);

  return (
    <div ref={screen}>
      <PageHeading title="Password Reset Successful" />
      <Outcome tone="good" text="Your new password is set. We're taking you to the login page.">
        <Button asChild variant="secondary" className="w-full">
          <Link to="/login" replace>
            Log in now
          </Link>
        </Button>
      </Outcome>
    </div>
  );
}

interface OutcomeProps {
  tone: "good" | "bad";
  text: string;
  /** What to do next. */
  children: ReactNode;
}

function Outcome({ tone, text, children }: OutcomeProps) {
  const Icon = tone === "good" ? CircleCheckIcon : CircleAlertIcon;
  const looks = tone === "good" ? "bg-primary-soft text-primary" : "bg-destructive-soft text-destructive";
  return (
    <Card className="grid gap-6 p-5 sm:p-7">
      <div role={tone === "good" ? "status" : "alert"} className="flex items-center gap-4">
        <span className={cn("grid size-11 shrink-0 place-items-center rounded-full", looks)}>
          <Icon className="size-5" aria-hidden />
        </span>
        <p className="text-pretty">{text}</p>
      </div>
      {children}
    </Card>
  );
}
