// SPDX-License-Identifier: Apache-2.0

// Package config reads the operator's configuration: a strict YAML file, then environment variables, then defaults, then
// checks. There is no global: main loads it once and hands it on.
package config

import (
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// maxFileBytes bounds the configuration file; a ConfigMap cannot hold more either.
const maxFileBytes = 1 << 20

// Config is everything that the operator of sless can set. The comments name the defaults.
type Config struct {
	// Registry is where images are pushed and pulled.
	Registry Registry `json:"registry"`
	// ObjectStore is where archives of code are kept.
	ObjectStore ObjectStore `json:"objectStore"`
	// Builds says how dependency images are built.
	Builds Builds `json:"builds"`
	// Functions holds what all functions share.
	Functions Functions `json:"functions"`
	// Gateway says where functions are reached.
	Gateway Gateway `json:"gateway"`
}

// Registry is a container registry.
type Registry struct {
	// Host is the registry, with a path if wanted: docker.io/acme. The environment variable REGISTRY_HOST wins.
	Host string `json:"host"`
	// RuntimeHost is where the runtime images are. The default is Host.
	RuntimeHost string `json:"runtimeHost"`
	// Insecure lists the hosts (with port) that are spoken to by plain HTTP.
	Insecure []string `json:"insecure"`
	// CAFile is a PEM file of further certificate authorities. The manager hands it on to the pods of builds.
	CAFile string `json:"caFile"`
	// DockerConfigFile is a docker config.json with credentials. Without it the registry is used anonymously.
	DockerConfigFile string `json:"dockerConfigFile"`
	// PushSecretName names a Secret of type kubernetes.io/dockerconfigjson in the builds namespace, for the steps of a build
	// that read the runtime image and push the result.
	PushSecretName string `json:"pushSecretName"`
}

// ObjectStore is an S3 store. Its credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
type ObjectStore struct {
	// Endpoint is host[:port], without a scheme.
	Endpoint string `json:"endpoint"`
	// Region is us-east-1 by default.
	Region string `json:"region"`
	// Bucket is sless by default. It is created when it does not exist.
	Bucket string `json:"bucket"`
	// PathStyle puts the bucket into the path instead of the host name.
	PathStyle bool `json:"pathStyle"`
	// Insecure speaks plain HTTP.
	Insecure bool `json:"insecure"`
	// CAFile is a PEM file of further certificate authorities. The manager hands it on to the pods of builds.
	CAFile string `json:"caFile"`
	// SecretName names a Secret in the builds namespace with accessKey and secretKey, for the fetch step
	// (sless-object-store by default).
	SecretName string `json:"secretName"`
}

// Builds says how dependency images are built.
type Builds struct {
	// Namespace is where build Jobs run (sless-builds by default).
	Namespace string `json:"namespace"`
	// KanikoImage is the image of the kaniko executor.
	KanikoImage string `json:"kanikoImage"`
	// BuilderImage is the image with /builder, normally that of the manager.
	BuilderImage string `json:"builderImage"`
	// ImagePullSecretName names a Secret in the builds namespace with which nodes pull the two images above.
	ImagePullSecretName string `json:"imagePullSecretName"`
	// MaxConcurrent is the number of builds that run at once (3 by default). Further ones wait.
	MaxConcurrent int `json:"maxConcurrent"`
	// CABundleConfigMap names a ConfigMap in the builds namespace whose key ca.crt holds the certificate authorities that
	// installers should trust.
	CABundleConfigMap string `json:"caBundleConfigMap"`
	// Env is passed to install steps as build arguments, such as NPM_CONFIG_REGISTRY or PIP_INDEX_URL.
	Env map[string]string `json:"env"`
	// Resources of the kaniko step (1 GiB of memory as limit by default).
	Resources corev1.ResourceRequirements `json:"resources"`
}

// Functions holds what all functions share.
type Functions struct {
	// Resources are the requests and limits of a function that sets none (50m CPU, 64 MiB; at most 512 MiB).
	Resources corev1.ResourceRequirements `json:"resources"`
	// MaxBodyBytes is the largest request body (32 MiB by default).
	MaxBodyBytes int64 `json:"maxBodyBytes"`
	// ImagePullSecretName names a Secret of type kubernetes.io/dockerconfigjson in the namespace of sless (that of the
	// gateway), with which nodes pull the images of functions. It is copied to every deploy namespace.
	ImagePullSecretName string `json:"imagePullSecretName"`
}

// Gateway says where functions are reached.
type Gateway struct {
	// Namespace is where the gateway runs (sless-system by default). Functions admit calls from there only.
	Namespace string `json:"namespace"`
	// ExternalURL is the address of the gateway as users see it, without a path. The environment variable EXTERNAL_URL
	// wins.
	ExternalURL string `json:"externalURL"`
	// FunctionDomain is the domain for host names of functions, which this version does not serve. The environment
	// variable FUNCTION_DOMAIN wins.
	FunctionDomain string `json:"functionDomain"`
}

// Load reads the file at path (an empty path means an empty file), lets getenv override it, fills in the defaults and
// checks the result. An unknown field in the file is an error.
func Load(path string, getenv func(string) string) (*Config, error) {
	cfg := &Config{}
	if path != "" {
		data, err := readBounded(path)
		if err != nil {
			return nil, fmt.Errorf("reading the configuration: %w", err)
		}
		if err := yaml.UnmarshalStrict(data, cfg); err != nil {
			return nil, fmt.Errorf("reading the configuration %s: %w", path, err)
		}
	}
	cfg.override(getenv)
	cfg.setDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("checking the configuration: %w", err)
	}
	return cfg, nil
}

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFileBytes {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxFileBytes)
	}
	return data, nil
}

func (c *Config) override(getenv func(string) string) {
	for name, field := range map[string]*string{
		"REGISTRY_HOST":   &c.Registry.Host,
		"EXTERNAL_URL":    &c.Gateway.ExternalURL,
		"FUNCTION_DOMAIN": &c.Gateway.FunctionDomain,
		"KANIKO_IMAGE":    &c.Builds.KanikoImage,
		"BUILDER_IMAGE":   &c.Builds.BuilderImage,
	} {
		if v := getenv(name); v != "" {
			*field = v
		}
	}
}

// Validate says what is missing or wrong, all of it at once.
func (c *Config) Validate() error {
	var problems []error
	for _, required := range []struct{ name, value string }{
		{"registry.host (REGISTRY_HOST)", c.Registry.Host},
		{"objectStore.endpoint", c.ObjectStore.Endpoint},
		{"builds.kanikoImage (KANIKO_IMAGE)", c.Builds.KanikoImage},
		{"builds.builderImage (BUILDER_IMAGE)", c.Builds.BuilderImage},
		{"gateway.externalURL (EXTERNAL_URL)", c.Gateway.ExternalURL},
	} {
		if required.value == "" {
			problems = append(problems, fmt.Errorf("%s must be set", required.name))
		}
	}
	if c.Builds.MaxConcurrent < 1 {
		problems = append(problems, fmt.Errorf("builds.maxConcurrent must be at least 1, not %d", c.Builds.MaxConcurrent))
	}
	return errors.Join(problems...)
}
