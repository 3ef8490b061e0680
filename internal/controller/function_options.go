// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/controller/resources"
	"github.com/naeel/sless/runtimes"
)

// podOptions is what every pod of a Function needs, whether it serves or runs once. Image, code and entrypoint are added
// by who knows them.
func podOptions(
	cfg *config.Config, rt runtimes.Runtime, mirrors map[resources.Source]string,
) resources.DeploymentOptions {
	return resources.DeploymentOptions{
		DefaultResources:   cfg.Functions.Resources,
		DefaultConcurrency: rt.DefaultConcurrency,
		MaxBodyBytes:       cfg.Functions.MaxBodyBytes,
		WritableRoot:       cfg.Functions.WritableRoot,
		Mirrors:            mirrors,
		ImagePullSecret:    pullSecretName(cfg),
	}
}
