// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/naeel/sless/hack/internal/oci"
	"github.com/naeel/sless/hack/internal/toolcache"
)

// kedaImageMakers lists the images of KEDA and its http-add-on. They are optional: building KEDA takes minutes.
func kedaImageMakers() []nodeImageMaker {
	return []nodeImageMaker{
		kedaImage("http-add-on-interceptor", toolcache.HTTPAddOn, "interceptor"),
		kedaImage("http-add-on-scaler", toolcache.HTTPAddOn, "scaler"),
		kedaImage("keda-operator", toolcache.KEDA, "keda-operator"),
		kedaImage("keda-adapter", toolcache.KEDA, "keda-adapter"),
	}
}

// kedaImage makes an image that holds one static program and nothing else: KEDA's programs talk to the cluster only, whose
// certificate authority is mounted into their pods.
func kedaImage(name, group, programName string) nodeImageMaker {
	return nodeImageMaker{name: name, optional: true, make: func(ctx context.Context, w *workshop) (*nodeImage, error) {
		p, version, err := w.toolProgram(ctx, group, programName)
		if err != nil {
			return nil, err
		}
		binary, err := w.programLayer(p, programName)
		if err != nil {
			return nil, err
		}
		return &nodeImage{
			name: name, ref: localHost + "/" + name + ":" + version, layers: layers(binary),
			config: oci.Spec{
				Entrypoint: []string{"/" + programName}, User: nonRoot, WorkingDir: "/", Env: map[string]string{"PATH": "/"},
			},
		}, nil
	}}
}
