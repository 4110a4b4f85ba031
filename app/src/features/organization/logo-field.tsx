import { UploadIcon, XIcon } from "lucide-react";
import { useEffect, useId, useRef, useState } from "react";
import { LogoPicture } from "@/components/logo-picture";
import { Button } from "@/components/ui/button";
import { Select } from "@/components/ui/select";
import { messageOf } from "@/lib/errors";
import { type SquareShape, toSquare } from "@/lib/square-image";
import type { LogoChange } from "./mutations";

const logoSide = 512;

interface LogoFieldProps {
  /** The one that is stored. */
  url: string | null;
  value: LogoChange;
  onChange: (logo: LogoChange) => void;
  /** While a chosen picture is made square: saving has to wait for it. */
  onPreparing: (preparing: boolean) => void;
}

/** A picture, chosen and made a square one; it is sent when the form is saved. */
export function LogoField({ url, value, onChange, onPreparing }: LogoFieldProps) {
  const input = useRef<HTMLInputElement>(null);
  const id = useId();
  const [file, setFile] = useState<File | null>(null);
  const [shape, setShape] = useState<SquareShape>("fit");
  const [fault, setFault] = useState<string | null>(null);
  const shown = useObjectUrl(value.kind === "new" ? value.image : null) ?? (value.kind === "same" ? url : null);

  async function choose(next: File, as: SquareShape) {
    setFile(next);
    setShape(as);
    onPreparing(true);
    try {
      onChange({ kind: "new", image: await toSquare(next, as, logoSide) });
      setFault(null);
    } catch (error) {
      setFault(messageOf(error));
    } finally {
      onPreparing(false);
    }
  }

  return (
    <fieldset className="grid gap-2">
      <legend className="mb-2 font-medium text-sm leading-none">Logo</legend>
      <div className="flex flex-wrap items-center gap-4">
        <LogoPicture url={shown} className="size-20" />
        <div className="grid gap-2">
          <div className="flex flex-wrap gap-2">
            <Button variant="secondary" size="small" onClick={() => input.current?.click()}>
              <UploadIcon aria-hidden />
              {shown ? "Replace logo" : "Choose logo"}
            </Button>
            {shown && (
              <Button
                variant="ghost"
                size="small"
                onClick={() => {
                  setFile(null);
                  onChange({ kind: "none" });
                }}
              >
                <XIcon aria-hidden />
                Remove logo
              </Button>
            )}
          </div>
          {file && value.kind === "new" && (
            <Select
              aria-label="How the picture becomes a square"
              value={shape}
              onChange={(event) => void choose(file, event.target.value === "crop" ? "crop" : "fit")}
            >
              <option value="fit">Fit: the whole picture</option>
              <option value="crop">Crop: the middle of the picture</option>
            </Select>
          )}
        </div>
        <input
          ref={input}
          id={id}
          type="file"
          accept="image/*"
          aria-label="Logo file"
          tabIndex={-1}
          className="sr-only"
          onChange={(event) => {
            const next = event.target.files?.[0];
            if (next) void choose(next, "fit");
            event.target.value = "";
          }}
        />
      </div>
      {fault && (
        <p role="alert" className="text-destructive text-sm">
          {fault}
        </p>
      )}
    </fieldset>
  );
}

function useObjectUrl(blob: Blob | null) {
  const [url, setUrl] = useState<string | null>(null);
  useEffect(() => {
    if (!blob) return setUrl(null);
    const made = URL.createObjectURL(blob);
    setUrl(made);
    return () => URL.revokeObjectURL(made);
  }, [blob]);
  return url;
}
