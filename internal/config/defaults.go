// SPDX-License-Identifier: Apache-2.0

package config

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func (c *Config) setDefaults() {
	setDefault(&c.Registry.RuntimeHost, c.Registry.Host)
	setDefault(&c.ObjectStore.Region, "us-east-1")
	setDefault(&c.ObjectStore.Bucket, "sless")
	setDefault(&c.ObjectStore.SecretName, "sless-object-store")
	setDefault(&c.Builds.Namespace, "sless-builds")
	c.Gateway.setDefaults()
	if c.Builds.MaxConcurrent == 0 {
		c.Builds.MaxConcurrent = 3
	}
	c.Git.setDefaults()
	if c.Functions.MaxBodyBytes == 0 {
		c.Functions.MaxBodyBytes = 32 << 20
	}
	c.Cleanup.SetDefaults()
	c.Scaling.SetDefaults()
	setResources(&c.Builds.Resources, resources("200m", "256Mi"), resources("", "1Gi"))
	setResources(&c.Functions.Resources, resources("50m", "64Mi"), resources("", "512Mi"))
}

func (g *Gateway) setDefaults() {
	setDefault(&g.Namespace, "sless-system")
	setDefault(&g.ServiceName, "sless-gateway")
	if g.ServicePort == 0 {
		g.ServicePort = 80
	}
	if g.HTTPRoute != nil {
		setDefault(&g.HTTPRoute.RequestTimeout, "0s")
	}
}

func setDefault(field *string, value string) {
	if *field == "" {
		*field = value
	}
}

// setResources fills in what is not set. There is no default limit on CPU: a limit slows every start-up down and protects
// nobody, since requests share the CPU out already.
func setResources(field *corev1.ResourceRequirements, requests, limits corev1.ResourceList) {
	if field.Requests == nil {
		field.Requests = requests
	}
	if field.Limits == nil {
		field.Limits = limits
	}
}

func resources(cpu, memory string) corev1.ResourceList {
	list := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
	if cpu != "" {
		list[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	return list
}
