// SPDX-License-Identifier: Apache-2.0

// Package validation judges the objects of the sless API by rules that the schema cannot express. The functions are pure;
// the reconcilers use them too, so that an object that came in by another way is judged the same.
package validation

import (
	"cmp"
	stdpath "path"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/runtimes"
)

// Catalogue finds language runtimes by name.
type Catalogue interface {
	Lookup(name string) (runtimes.Runtime, bool)
	Names() []string
}

// Problem is something in a spec that only the user can mend.
type Problem struct {
	// Reason is the machine-readable word for conditions.
	Reason string
	// Err names the field and says what to do.
	Err *field.Error
}

// forbiddenMounts are the folders of a function's container that sless fills itself.
var forbiddenMounts = []string{
	"/app", "/sless", "/tmp", "/opt/deps", "/proc", "/sys", "/dev", "/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc",
}

// ValidateFunction returns every problem of a Function's spec that the schema lets through, the most basic first.
func ValidateFunction(fn *v1alpha1.Function, catalogue Catalogue) []Problem {
	spec := field.NewPath("spec")
	problems := validateSource(fn.Spec.Source, spec.Child("source"))
	problems = append(problems, validateEnv(fn.Spec.Env, spec.Child("env"))...)
	problems = append(problems, validateEnvFrom(fn.Spec.EnvFrom, spec.Child("envFrom"))...)
	problems = append(problems, validateVolumes(fn, spec.Child("volumes"))...)
	problems = append(problems, validateResources(fn.Spec.Resources, spec.Child("resources"))...)
	if fn.Spec.Source.Image != nil && fn.Spec.Runtime == "" {
		return problems
	}
	rt, ok := catalogue.Lookup(fn.Spec.Runtime)
	if !ok {
		return append(problems, Problem{
			Reason: v1alpha1.ReasonRuntimeUnknown,
			Err:    field.NotSupported(spec.Child("runtime"), fn.Spec.Runtime, catalogue.Names()),
		})
	}
	return append(problems, validateEntrypoint(fn, rt, spec.Child("entrypoint"))...)
}

// ValidateFunctionUpdate returns the problems that a change brings in, and apart from them those that the Function had
// before: a Function that came in before a rule existed can be changed in other respects. No field of a Function is
// immutable.
func ValidateFunctionUpdate(old, changed *v1alpha1.Function, catalogue Catalogue) (introduced, kept []Problem) {
	return Introduced(ValidateFunction(old, catalogue), ValidateFunction(changed, catalogue))
}

// validateEntrypoint checks the entrypoint's file where the files are known: in inline source. For other sources the
// controller checks once it has them. A build that sees the whole source may make the file.
func validateEntrypoint(fn *v1alpha1.Function, rt runtimes.Runtime, path *field.Path) []Problem {
	if fn.Spec.Source.Inline == nil || fn.Spec.Build.Strategy == v1alpha1.BuildStrategyFull {
		return nil
	}
	files := fn.Spec.Source.Inline.Files
	has := func(name string) bool { _, ok := files[name]; return ok }
	if _, _, err := rt.EntrypointFile(EntrypointOf(fn, rt), has); err != nil {
		return []Problem{{
			Reason: v1alpha1.ReasonEntrypointNotFound,
			Err:    field.Invalid(path, EntrypointOf(fn, rt), err.Error()),
		}}
	}
	return nil
}

// defaultEntrypoint is that of a ready image whose runtime is not named.
const defaultEntrypoint = "handler.handle"

// EntrypointOf returns the entrypoint of a Function, which is the runtime's default unless the spec names one.
func EntrypointOf(fn *v1alpha1.Function, rt runtimes.Runtime) string {
	return cmp.Or(fn.Spec.Entrypoint, rt.DefaultEntrypoint, defaultEntrypoint)
}

func validateVolumes(fn *v1alpha1.Function, path *field.Path) []Problem {
	var problems []Problem
	invalid := func(i int, detail string) {
		problems = append(problems, Problem{
			Reason: v1alpha1.ReasonInvalidSpec,
			Err:    field.Invalid(path.Index(i).Child("mountPath"), fn.Spec.Volumes[i].MountPath, detail),
		})
	}
	taken := map[string]bool{}
	for i, v := range fn.Spec.Volumes {
		switch {
		case stdpath.Clean(v.MountPath) != v.MountPath || v.MountPath == "/":
			invalid(i, "must be a folder below the root, without dots, doubled slashes or a slash at the end")
		case taken[v.MountPath]:
			invalid(i, "is the mountPath of another volume too")
		}
		taken[v.MountPath] = true
		for _, other := range fn.Spec.Volumes {
			// Nothing can be mounted into a volume that is read-only.
			if strings.HasPrefix(v.MountPath, other.MountPath+"/") {
				invalid(i, "lies in "+other.MountPath+", the mountPath of another volume; choose a folder beside it")
			}
		}
		for _, folder := range forbiddenMounts {
			if v.MountPath == folder || strings.HasPrefix(v.MountPath, folder+"/") {
				invalid(i, "lies in "+folder+", which belongs to the runtime; choose another folder")
			}
			if strings.HasPrefix(folder, v.MountPath+"/") {
				invalid(i, "hides "+folder+", which belongs to the runtime; choose a folder in it, such as "+v.MountPath+"/"+v.Name)
			}
		}
	}
	return problems
}
