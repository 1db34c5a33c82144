#!/bin/bash
# Builds DCGM's open host engine, libdcgm.so.4, on Debian 12 for `second_hour --engine FOLDER/out`: six minutes of one core.
#
#     build_engine.sh FOLDER DCGM PLOG FMT
#
# DCGM, PLOG and FMT are checkouts of github.com/NVIDIA/DCGM (v4.6.0), SergiusTheBest/plog and fmtlib/fmt (12.1.0). What
# Debian has is unpacked into FOLDER, not installed. Nothing of it belongs into this repository.
set -euo pipefail
[ $# -eq 4 ] || { sed -n 2,7p "$0"; exit 2; }
folder=$(realpath -m "$1") dcgm=$(realpath "$2") plog=$(realpath "$3") fmt=$(realpath "$4")
lib=$folder/usr/lib/x86_64-linux-gnu out=$folder/out
mkdir -p "$folder"/{debs,o,out}
(
  cd "$folder/debs"
  apt-get download -q libboost1.81-dev libboost-filesystem1.81-dev libjsoncpp-dev libjsoncpp25 libevent-dev libevent-2.1-7 \
    libevent-core-2.1-7 libevent-pthreads-2.1-7 libtclap-dev libyaml-cpp-dev librange-v3-dev
  for each in *.deb; do dpkg -x "$each" "$folder"; done
)
cp -L "$lib"/libevent{,_core,_pthreads}-2.1.so.7 "$lib/libjsoncpp.so.25" "$out"
cat >"$folder/shim.h" <<'SHIM'
// What g++ 12 lacks of C++23, and what newer headers include by themselves.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <range/v3/view/enumerate.hpp>
#include <range/v3/view/zip.hpp>
#include <ranges>
#include <string>
#include <variant>
#include <vector>
namespace std::ranges::views { using ::ranges::views::enumerate; using ::ranges::views::zip; }
SHIM
cd "$dcgm"
sed 's/@[A-Za-z_]*@/x/g' common/DcgmBuildInfo.cpp.in >common/DcgmBuildInfo.cpp
mapfile -t ours < <(find . -type d -name 'test*' -prune -o -name '*.h*' -printf '-I%h\n' | sort -u)
include=("${ours[@]}" "-I$fmt/include" "-I$folder/usr/include" "-I$folder/usr/include/jsoncpp" "-I$plog/include")
defined=(-DFMT_HEADER_ONLY -DDCGM_BUILD_VGPU_MODULE '-DDRIVER_MAJOR_VERSION="418"' '-DDRIVER_VERSION="418"' -DNV_LINUX=1 -DNV_UNIX=1
  -D_UNIX=1 -DNVML_STATIC_IMPORT=1 -DPLOG_LOCAL -D__CUDA_API_VERSION_INTERNAL=1 -DDCGM_DEPRECATED=0 -DDCGM_API_EXPORT=1)
for source in dcgmlib/src/*.c* dcgmlib/src/mocks/*.cpp common/*.cpp common/{DcgmThread,ChildProcess,transport}/*.cpp \
  modules/*.cpp modules/{common,core}/*.cpp sdk/nvidia/nvml/common/*.c* sdk/nvidia/nvml/nvml_loader/*.cpp; do
  object=$folder/o/${source//\//_}.o
  [ -s "$object" ] && continue
  compile=(g++ -std=c++23 -include "$folder/shim.h")
  [[ $source == *.c ]] && compile=(gcc -std=gnu17)
  [[ $source == */nvml_loader.cpp ]] && compile+=(-DINJECTION_LIBRARY_AVAILABLE)
  "${compile[@]}" -O1 -fPIC -w "${defined[@]}" "${include[@]}" -c "$source" -o "$object"
done
g++ -shared -o "$out/libdcgm.so.4" -Wl,-soname,libdcgm.so.4 -Wl,--version-script,dcgmlib/dcgmlib.linux_def -static-libstdc++ \
  -static-libgcc "$folder"/o/*.o "$out"/*.so.7 "$out/libjsoncpp.so.25" "-Wl,-rpath,\$ORIGIN" "$lib/libboost_filesystem.a" \
  -lrt -ldl -lpthread -Wl,--no-undefined
