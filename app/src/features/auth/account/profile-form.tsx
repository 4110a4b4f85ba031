import { zodResolver } from "@hookform/resolvers/zod";
import type { User } from "@supabase/supabase-js";
import { UploadIcon, XIcon } from "lucide-react";
import { useRef, useState } from "react";
import { useForm } from "react-hook-form";
import { FormField } from "@/components/form-field";
import { SubmitButton } from "@/components/submit-button";
import { Avatar } from "@/components/ui/avatar";
import { Button } from "@/components/ui/button";
import { Input } from "@/components/ui/input";
import { basalt } from "@/lib/basalt";
import { messageOf } from "@/lib/errors";
import { randomUuid } from "@/lib/random-uuid";
import { toSquare } from "@/lib/square-image";
import { toast } from "@/lib/toast";
import { avatarOf, initialOf } from "../person";
import { type ProfileValues, profileSchema } from "./schema";

const bucket = "avatars";
const side = 256;

export function ProfileForm({ user }: { user: User }) {
  const { formState, handleSubmit, register, reset } = useForm<ProfileValues>({
    resolver: zodResolver(profileSchema),
    defaultValues: valuesOf(user),
  });
  const { errors, isDirty, isSubmitting } = formState;

  async function save({ name, organization }: ProfileValues) {
    const { data, error } = await basalt.auth.updateUser({ data: { name, organization_name: organization } });
    if (error) return toast.error("Your profile could not be saved", { description: messageOf(error) });
    reset(valuesOf(data.user));
    toast.success("Profile saved");
  }

  return (
    <div className="grid gap-6">
      <Picture user={user} />
      <form noValidate aria-label="Profile" onSubmit={(event) => void handleSubmit(save)(event)}>
        <fieldset disabled={isSubmitting} className="grid gap-5">
          <FormField label="Name" hint="Colleagues see it beside your work." error={errors.name?.message}>
            <Input autoComplete="name" placeholder="Maya Fischer" {...register("name")} />
          </FormField>
          <FormField label="Organization Name" error={errors.organization?.message} required>
            <Input autoComplete="organization" {...register("organization")} />
          </FormField>
          <SubmitButton busy={isSubmitting} busyLabel="Saving..." disabled={!isDirty} className="justify-self-start">
            Save profile
          </SubmitButton>
        </fieldset>
      </form>
    </div>
  );
}

function valuesOf({ user_metadata: metadata }: User): ProfileValues {
  const text = (value: unknown) => (typeof value === "string" ? value : "");
  return { name: text(metadata.name), organization: text(metadata.organization_name) };
}

/** The picture, which is stored as soon as it is chosen: a small square, without what cameras write into pictures. */
function Picture({ user }: { user: User }) {
  const input = useRef<HTMLInputElement>(null);
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useState<string | null>(null);
  const image = avatarOf(user);

  async function change(work: () => Promise<string | null>) {
    setBusy(true);
    setFault(null);
    try {
      const url = await work();
      const { error } = await basalt.auth.updateUser({ data: { avatar_url: url } });
      if (error) throw error;
      const old = pathOf(image);
      // The old picture is shown nowhere any more. One that stays behind harms nothing.
      if (old) await basalt.storage.from(bucket).remove([old]);
      toast.success(url ? "Picture saved" : "Picture removed");
    } catch (error) {
      setFault(messageOf(error));
    } finally {
      setBusy(false);
    }
  }

  const upload = (file: File) =>
    change(async () => {
      const picture = await toSquare(file, "crop", side);
      const path = `${user.id}/${randomUuid()}.png`;
      const { error } = await basalt.storage.from(bucket).upload(path, picture, { contentType: "image/png" });
      if (error) throw error;
      return basalt.storage.from(bucket).getPublicUrl(path).data.publicUrl;
    });

  return (
    <fieldset disabled={busy}>
      <legend className="mb-2 font-medium text-sm leading-none">Picture</legend>
      <div className="flex flex-wrap items-center gap-4">
        <Avatar image={image} initial={initialOf(user)} className="size-16 text-xl" />
        <div className="flex flex-wrap gap-2">
          <Button variant="secondary" size="small" aria-busy={busy} onClick={() => input.current?.click()}>
            <UploadIcon aria-hidden />
            {busy ? "Saving..." : image ? "Change picture" : "Upload picture"}
          </Button>
          {image && (
            <Button variant="ghost" size="small" onClick={() => void change(async () => null)}>
              <XIcon aria-hidden />
              Remove picture
            </Button>
          )}
        </div>
        <input
          ref={input}
          type="file"
          accept="image/*"
          aria-label="Picture file"
          tabIndex={-1}
          className="sr-only"
          onChange={(event) => {
            const file = event.target.files?.[0];
            if (file) void upload(file);
            event.target.value = "";
          }}
        />
      </div>
      {fault && (
        <p role="alert" className="mt-2 text-destructive text-sm">
          {fault}
        </p>
      )}
    </fieldset>
  );
}

/** The path of a picture in our bucket; null for one from elsewhere, such as Google's. */
export function pathOf(url: string | undefined) {
  return url?.split(`/storage/v1/object/public/${bucket}/`)[1] ?? null;
}
