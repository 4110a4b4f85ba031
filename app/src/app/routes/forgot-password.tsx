import { MailCheckIcon } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import { Link } from "react-router";
import { PageHeading } from "@/components/page-heading";
import { Button } from "@/components/ui/button";
import { Card } from "@/components/ui/card";
import { ForgotPasswordForm } from "@/features/auth/forgot-password-form";

export function Component() {
  const [sentTo, setSentTo] = useState<string | null>(null);
  const screen = useRef<HTMLDivElement>(null);

  // The form, which had the focus, is gone: what took its place is what a screen reader reads next.
  useEffect(() => {
    if (sentTo) screen.current?.querySelector("h1")?.focus({ preventScroll: true });
  }, [sentTo]);

  return (
    <div ref={screen}>
      {sentTo ? (
        <>
          <PageHeading title="Check your email" />
          <Card className="grid gap-6 p-5 sm:p-7">
            <div className="flex items-start gap-4">
              <span className="grid size-11 shrink-0 place-items-center rounded-full bg-primary-soft text-primary">
                <MailCheckIcon className="size-5" aria-hidden />
              </span>
              <div className="grid min-w-0 gap-2 text-pretty">
                <p>
                  If there is an account for <strong className="break-words font-medium">{sentTo}</strong>, a link to
                  choose a new password is on its way.
                </p>
                <p className="text-muted-foreground text-sm">
                  Nothing there after a few minutes? Look into your spam folder, or try another address.
                </p>
              </div>
            </div>
            <Button asChild className="w-full">
              <Link to="/login">Back to Login</Link>
            </Button>
          </Card>
        </>
      ) : (
        <>
          <PageHeading title="Forgot your password?" subtitle="We'll email you a link to choose a new one." />
          <Card className="grid gap-5 p-5 sm:p-7">
            <ForgotPasswordForm onSent={setSentTo} />
            <Button asChild variant="ghost" className="w-full">
              <Link to="/login">Back to Login</Link>
            </Button>
          </Card>
        </>
      )}
    </div>
  );
}
