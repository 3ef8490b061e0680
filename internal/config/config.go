// SPDX-License-Identifier: Apache-2.0

// Package config reads the operator's configuration: a strict YAML file, then environment variables, then defaults, then
// checks. There is no global: main loads it once and hands it on.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
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
	// Git says how code is fetched from git repositories.
	Git Git `json:"git"`
	// Functions holds what all functions share.
	Functions Functions `json:"functions"`
	// Gateway says where functions are reached.
	Gateway Gateway `json:"gateway"`
	// Cleanup says when what no Function needs any more is removed.
	Cleanup Cleanup `json:"cleanup"`
	// Scaling says where the autoscaler is.
	Scaling Scaling `json:"scaling"`
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
	// WritableRoot makes the root file system of functions writable, so that /tmp needs no volume and pods start 0.3 s sooner.
	WritableRoot bool `json:"writableRoot"`
	// ImagePullSecretName names a Secret of type kubernetes.io/dockerconfigjson in the namespace of sless (that of the
	// gateway), with which nodes pull the images of functions. It is copied to every deploy namespace.
	ImagePullSecretName string `json:"imagePullSecretName"`
}

// Gateway says where functions are reached.
type Gateway struct {
	// Namespace is where the gateway runs (sless-system by default). Functions admit calls from there.
	Namespace string `json:"namespace"`
	// ServiceName and ServicePort are the gateway's Service and its public port (sless-gateway, 80).
	ServiceName string `json:"serviceName"`
	ServicePort int32  `json:"servicePort"`
	// ExternalURL is the address of the gateway as users see it, without a path. The environment variable EXTERNAL_URL
	// wins. It may be empty when FunctionDomain is set.
	ExternalURL string `json:"externalURL"`
	// FunctionDomain is the domain for host names of functions: without ExternalURL, an http Trigger without a host gets
	// <function>-<namespace>.<FunctionDomain>. The environment variable FUNCTION_DOMAIN wins.
	FunctionDomain string `json:"functionDomain"`
	// IngressClassName is the class of the Ingresses of hosts. The default is the cluster's.
	IngressClassName string `json:"ingressClassName"`
	// IngressAnnotations are put on the Ingresses of hosts.
	IngressAnnotations map[string]string `json:"ingressAnnotations"`
	// IngressTLSSecretName names a Secret of type kubernetes.io/tls in Namespace, for the hosts of all Triggers. Without
	// it the Ingresses ask for no TLS.
	IngressTLSSecretName string `json:"ingressTLSSecretName"`
	// HTTPRoute makes a Gateway API HTTPRoute for each host, instead of an Ingress.
	HTTPRoute *HTTPRoute `json:"httpRoute"`
	// HostScheme is that of the URLs of hosts: http or https. The default is https when IngressTLSSecretName is set or
	// ExternalURL is one of HTTPS.
	HostScheme string `json:"hostScheme"`
	// AllowedHosts are the hosts that http Triggers may ask for. Without any they may ask for every host, which is for
	// clusters whose users trust each other. The hosts that follow from FunctionDomain need no entry.
	AllowedHosts []AllowedHost `json:"allowedHosts"`
}

// HostURL returns the URL of a host name. Hosts are served by HTTPS when there is a certificate for them, or when the gateway
// itself is, unless HostScheme says something else.
func (g *Gateway) HostURL(host string) string {
	scheme := "http"
	if g.IngressTLSSecretName != "" || strings.HasPrefix(g.ExternalURL, "https://") {
		scheme = "https"
	}
	return cmp.Or(g.HostScheme, scheme) + "://" + host
}

// HTTPRoute says to which Gateways the hosts of Triggers are attached.
type HTTPRoute struct {
	// ParentRefs are the Gateways.
	ParentRefs []ParentRef `json:"parentRefs"`
	// RequestTimeout is the request timeout of the routes, a duration of the Gateway API. The default is 0s, which is none:
	// the gateway of sless ends calls in time. With OmitTimeout the routes name none, and the Gateway's own holds.
	RequestTimeout string `json:"requestTimeout"`
}

// OmitTimeout is a RequestTimeout for Gateways that refuse routes which name one.
const OmitTimeout = "omit"

// routeDuration is what the Gateway API takes for a duration.
var routeDuration = regexp.MustCompile(`^([0-9]{1,5}(h|m|s|ms)){1,4}$`)

// ParentRef names a Gateway of the Gateway API.
type ParentRef struct {
	// Name of the Gateway.
	Name string `json:"name"`
	// Namespace of the Gateway. The default is the gateway's own.
	Namespace string `json:"namespace"`
	// SectionName is the listener of the Gateway. The default is all.
	SectionName string `json:"sectionName"`
}

// Load reads the file at path (an empty path means an empty file), lets getenv override it, fills in the defaults and
// checks the result. An unknown field in the file is an error.
func Load(path string, getenv func(string) string) (*Config, error) {
	cfg, err := read(path)
	if err != nil {
		return nil, err
	}
	cfg.override(getenv)
	cfg.setDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("checking the configuration: %w", err)
	}
	return cfg, nil
}

// read decodes the file at path. An empty path means an empty file.
func read(path string) (*Config, error) {
	cfg := &Config{}
	if path == "" {
		return cfg, nil
	}
	data, err := readBounded(path)
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	if err := yaml.UnmarshalStrict(data, cfg); err != nil {
		return nil, fmt.Errorf("reading the configuration %s: %w", path, err)
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
		{"gateway.externalURL (EXTERNAL_URL), or gateway.functionDomain (FUNCTION_DOMAIN),",
			c.Gateway.ExternalURL + c.Gateway.FunctionDomain},
	} {
		if required.value == "" {
			problems = append(problems, fmt.Errorf("%s must be set", required.name))
		}
	}
	if c.Builds.MaxConcurrent < 1 {
		problems = append(problems, fmt.Errorf("builds.maxConcurrent must be at least 1, not %d", c.Builds.MaxConcurrent))
	}
	problems = append(problems, c.Git.problems()...)
	problems = append(problems, c.Cleanup.validate()...)
	problems = append(problems, c.Scaling.validate())
	problems = append(problems, c.Gateway.validate()...)
	return errors.Join(problems...)
}

func (g *Gateway) validate() []error {
	var problems []error
	if u, err := url.Parse(g.ExternalURL); err != nil || (g.ExternalURL != "" && u.Host == "") {
		problems = append(problems, fmt.Errorf("gateway.externalURL must be like https://functions.example.com, not %q", g.ExternalURL))
	}
	if d := g.FunctionDomain; d != "" && len(validation.IsDNS1123Subdomain(d)) > 0 {
		problems = append(problems, fmt.Errorf("gateway.functionDomain must be a domain like fn.example.com, not %q", d))
	}
	if !slices.Contains([]string{"", "http", "https"}, g.HostScheme) {
		problems = append(problems, fmt.Errorf("gateway.hostScheme must be http or https, not %q", g.HostScheme))
	}
	for i := range g.AllowedHosts {
		problems = append(problems, g.AllowedHosts[i].validate(fmt.Sprintf("gateway.allowedHosts[%d]", i))...)
	}
	if g.HTTPRoute == nil {
		return problems
	}
	if t := g.HTTPRoute.RequestTimeout; t != OmitTimeout && !routeDuration.MatchString(t) {
		problems = append(problems, fmt.Errorf("gateway.httpRoute.requestTimeout must be like 0s, 90s or 1h30m, or %s, not %q", OmitTimeout, t))
	}
	if len(g.HTTPRoute.ParentRefs) == 0 {
		problems = append(problems, errors.New("gateway.httpRoute.parentRefs must name a Gateway"))
	}
	for i, parent := range g.HTTPRoute.ParentRefs {
		if parent.Name == "" {
			problems = append(problems, fmt.Errorf("gateway.httpRoute.parentRefs[%d].name must be set", i))
		}
	}
	return problems
}
