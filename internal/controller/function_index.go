// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/resources"
)

// indexConfig returns the build arguments, and the files that configure private package indexes, from the Secret that
// spec.build.secretName names. What is in the files is not part of a build's key: a new password builds nothing again.
func (r *FunctionReconciler) indexConfig(
	ctx context.Context, s *functionScope,
) (map[string]string, map[string][]byte, error) {
	name, known := s.fn.Spec.Build.SecretName, s.runtime.Dependencies.IndexConfig
	if name == "" {
		return r.Config.Builds.Env, nil, nil
	}
	data, err := r.readSource(ctx, s.fn.Namespace, resources.Source{Kind: resources.SourceSecret, Name: name})
	if err != nil {
		return nil, nil, err
	}
	if data == nil {
		return nil, nil, stalled(v1alpha1.ConditionBuilt, v1alpha1.ReasonConfigMissing,
			"Secret %s, which spec.build.secretName names, does not exist in namespace %s", name, s.fn.Namespace)
	}
	env, files := map[string]string{}, map[string][]byte{}
	maps.Copy(env, r.Config.Builds.Env)
	for file, variable := range known {
		if content, ok := data[file]; ok {
			files[file] = content
			env[variable] = path.Join(resources.IndexDir, file)
		}
	}
	if len(files) == 0 {
		return nil, nil, stalled(v1alpha1.ConditionBuilt, v1alpha1.ReasonConfigMissing,
			"Secret %s, which spec.build.secretName names, holds none of %s", name,
			strings.Join(slices.Sorted(maps.Keys(known)), ", "))
	}
	return env, files, nil
}
