// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"

	"github.com/naeel/sless/hack/images/internal/layer"
	"github.com/naeel/sless/hack/images/internal/recipe"
	"github.com/naeel/sless/hack/internal/oci"
	"github.com/naeel/sless/hack/internal/toolcache"
)

const (
	// localHost is the registry part of names that no registry serves: the node has these images or nobody.
	localHost = "sless.local"
	// machineCertificates are the certificates that this machine trusts. They go into the images that talk to others,
	// for behind a proxy with certificates of its own nothing else would work.
	machineCertificates = "/etc/ssl/certs/ca-certificates.crt"
	certificates        = "etc/ssl/certs/ca-certificates.crt"
	// nonRoot is the user that everything runs as which need not be root.
	nonRoot = "65532:65532"
)

//go:embed registry.yml
var registryConfig []byte

type nodeImageMaker struct {
	name string
	// optional images are made only when they are asked for by name.
	optional bool
	make     func(context.Context, *workshop) (*nodeImage, error)
}

// nodeImageMakers lists the images with the quickest and most often changed first.
func nodeImageMakers() []nodeImageMaker {
	return append([]nodeImageMaker{
		{name: "sless", make: makeSless},
		{name: "registry", make: makeRegistry},
		{name: "versitygw", make: makeVersitygw},
		{name: "kaniko", make: makeKaniko},
	}, kedaImageMakers()...)
}

func nodeImageNames() []string {
	var names []string
	for _, maker := range nodeImageMakers() {
		names = append(names, maker.name)
	}
	return names
}

// makeSless makes the image of the project's own programs, tagged by their content, so that a Deployment rolls when
// they changed and only then.
func makeSless(ctx context.Context, w *workshop) (*nodeImage, error) {
	places := []struct{ folder, path string }{
		{"cmd/builder", "builder"}, {"cmd/gateway", "gateway"}, {"cmd", "manager"},
	}
	built, err := w.build(ctx, "cmd/builder", "cmd/gateway", "cmd")
	if err != nil {
		return nil, err
	}
	base, err := w.certificateLayer(certificates)
	if err != nil {
		return nil, err
	}
	all := []*layer.Cached{base}
	for _, place := range places {
		l, err := w.programLayer(built[place.folder], place.path)
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	image := &nodeImage{name: "sless", layers: layers(all...), config: oci.Spec{
		Entrypoint: []string{"/manager"}, User: nonRoot, WorkingDir: "/", Env: map[string]string{"PATH": "/"},
	}}
	// The image's identity is its configuration, which holds the digests of all layers.
	img, err := assemble(image.layers, image.config)
	if err != nil {
		return nil, err
	}
	id, err := img.ConfigName()
	if err != nil {
		return nil, err
	}
	image.ref = fmt.Sprintf("%s/sless:%s", localHost, id.Hex[:12])
	return image, nil
}

// makeRegistry lays the image out as the one on the Docker Hub, so that config/demo serves with both.
func makeRegistry(ctx context.Context, w *workshop) (*nodeImage, error) {
	p, version, err := w.toolProgram(ctx, toolcache.Registry, "registry")
	if err != nil {
		return nil, err
	}
	binary, err := w.programLayer(p, "bin/registry")
	if err != nil {
		return nil, err
	}
	base, err := w.certificateLayer(certificates)
	if err != nil {
		return nil, err
	}
	config, err := w.filesLayer(layer.Tree{
		"etc/distribution/config.yml": layer.File(0o644, registryConfig),
		"var/lib/registry":            {Type: layer.Dir(0).Type, Mode: 0o755, UID: 65532, GID: 65532},
	})
	if err != nil {
		return nil, err
	}
	return &nodeImage{
		name: "registry", ref: localHost + "/registry:" + version, layers: layers(base, binary, config),
		config: oci.Spec{
			Entrypoint: []string{"registry"}, Cmd: []string{"serve", "/etc/distribution/config.yml"}, User: nonRoot,
			Env: map[string]string{"PATH": "/bin", "OTEL_TRACES_EXPORTER": "none"},
		},
	}, nil
}

// makeVersitygw puts the program where the one on the Docker Hub has it.
func makeVersitygw(ctx context.Context, w *workshop) (*nodeImage, error) {
	p, version, err := w.toolProgram(ctx, toolcache.S3, "versitygw")
	if err != nil {
		return nil, err
	}
	binary, err := w.programLayer(p, "usr/local/bin/versitygw")
	if err != nil {
		return nil, err
	}
	base, err := w.certificateLayer(certificates)
	if err != nil {
		return nil, err
	}
	return &nodeImage{
		name: "versitygw", ref: localHost + "/versitygw:" + version, layers: layers(base, binary),
		config: oci.Spec{
			Entrypoint: []string{"/usr/local/bin/versitygw"}, User: nonRoot,
			Env: map[string]string{"PATH": "/usr/local/bin"},
		},
	}, nil
}

// makeKaniko follows the executor image that kaniko itself publishes. kaniko unpacks other images over its own root and
// spares /kaniko only, so everything it needs is there.
func makeKaniko(ctx context.Context, w *workshop) (*nodeImage, error) {
	p, version, err := w.toolProgram(ctx, toolcache.Kaniko, "executor")
	if err != nil {
		return nil, err
	}
	frame, err := w.filesLayer(layer.Tree{
		"kaniko":            layer.Dir(0o777),
		"kaniko/.docker":    layer.Dir(0o755),
		"etc/nsswitch.conf": layer.File(0o644, []byte("hosts: files dns\n")),
		"workspace":         layer.Dir(0o755),
	})
	if err != nil {
		return nil, err
	}
	base, err := w.certificateLayer("kaniko/ssl/certs/ca-certificates.crt")
	if err != nil {
		return nil, err
	}
	binary, err := w.programLayer(p, "kaniko/executor")
	if err != nil {
		return nil, err
	}
	return &nodeImage{
		// The frame comes last: the other layers bring the folder /kaniko with usual permissions.
		name: "kaniko", ref: localHost + "/kaniko:" + version, layers: layers(base, binary, frame),
		config: oci.Spec{
			Entrypoint: []string{"/kaniko/executor"}, WorkingDir: "/workspace", User: "0:0",
			Env: map[string]string{
				"HOME": "/root", "USER": "root", "PATH": "/usr/local/bin:/kaniko",
				"SSL_CERT_DIR": "/kaniko/ssl/certs", "DOCKER_CONFIG": "/kaniko/.docker/",
			},
		},
	}, nil
}

// certificateLayer returns a layer with the certificates that this machine trusts.
func (w *workshop) certificateLayer(path string) (*layer.Cached, error) {
	data, err := os.ReadFile(machineCertificates)
	if err != nil {
		return nil, fmt.Errorf("the machine's certificates (package ca-certificates): %w", err)
	}
	key, err := recipe.Key(data)
	if err != nil {
		return nil, err
	}
	return w.layer("certificates", func() (layer.Tree, error) {
		return layer.Tree{path: layer.File(0o644, data)}, nil
	}, path, key)
}
