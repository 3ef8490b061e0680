// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"slices"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
	"github.com/naeel/sless/runtimes"
)

// ensureFullImage finds the image of a Function whose installation sees the whole source, or builds it. What is built holds
// the code already, so that nothing is laid over it, and it lies where the Function's code lies.
func (r *FunctionReconciler) ensureFullImage(ctx context.Context, s *functionScope, base string) error {
	if s.runtime.Dependencies.InstallFull == "" {
		return stalled(v1alpha1.ConditionBuilt, v1alpha1.ReasonInvalidSpec,
			"spec.build.strategy: runtime %s has no builds of the strategy Full; use Auto", s.runtime.Name)
	}
	build, err := r.planFullBuild(ctx, s, base)
	if err != nil {
		return err
	}
	repository := naming.CodeRepository(r.Config.Registry.Host, s.fn.Namespace, s.fn.Name)
	digest, err := r.dependencyImage(ctx, s, build, repository+":"+build.key)
	if err != nil {
		return err
	}
	s.image = repository + "@" + digest
	s.succeed(v1alpha1.ConditionBuilt, v1alpha1.ReasonSucceeded, "the image is "+s.image)
	return nil
}

// planFullBuild makes what the build needs beside the code: the generated Dockerfile, and the files that may hold
// credentials, which the code in the store lacks unless it was uploaded. The code lies in a folder of its own, so that no
// file of the user takes the place of one of these.
func (r *FunctionReconciler) planFullBuild(ctx context.Context, s *functionScope, base string) (dependencyBuild, error) {
	env, indexFiles, err := r.indexConfig(ctx, s)
	if err != nil {
		return dependencyBuild{}, err
	}
	packed, err := r.buildContext(s, s.runtime.Dependencies.Secret, env, func(present, arguments []string) string {
		return s.runtime.FullDockerfile(base, present, arguments)
	})
	if err != nil {
		return dependencyBuild{}, err
	}
	// The name is part of the key because it is part of where the image goes.
	parts := []string{"full", runtimes.DockerfileVersion, s.fn.Namespace, s.fn.Name, packed.Digest, s.code.digest}
	key := naming.Key(slices.Concat(parts, sortedEnv(env))...)
	return dependencyBuild{
		key: key, base: base, context: packed, code: s.code, env: env, indexFiles: indexFiles,
	}, nil
}
